// A real OpenID provider on a loopback port, for tests: oidc-provider of the npm registry, with its own pages for logging in
// that take any name and no password. Its configuration is the file that the first argument names:
//   {"port", "key", "cert": PEM, "clients": [...], "groups": {"<account>": ["..."]}}
// The groups are read again for every token, so that a test changes them.
import { readFileSync } from 'node:fs';
import https from 'node:https';
import Provider from 'oidc-provider';

const file = process.argv[2];
const read = () => JSON.parse(readFileSync(file, 'utf8'));
const settings = read();
const issuer = `https://127.0.0.1:${settings.port}`;

const provider = new Provider(issuer, {
	clients: settings.clients,
	scopes: ['openid', 'offline_access', 'groups', 'profile'],
	claims: { openid: ['sub'], profile: ['name', 'preferred_username'], groups: ['groups'] },
	features: { devInteractions: { enabled: true } },
	pkce: { required: () => true },
	issueRefreshToken: async (ctx, client, code) => code.scopes.has('offline_access'),
	rotateRefreshToken: true,
	findAccount: async (ctx, id) => {
		const groups = read().groups[id];
		if (!groups) return undefined; // nobody
		return { accountId: id, claims: async () => ({ sub: id, name: `${id} of the provider`, preferred_username: id, groups }) };
	},
	cookies: { keys: ['only for tests'] },
});
https.createServer({ key: settings.key, cert: settings.cert }, provider.callback()).listen(settings.port, '127.0.0.1', () => console.log(`ready ${issuer}`));
