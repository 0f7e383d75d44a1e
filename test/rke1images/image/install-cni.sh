#!/bin/sh
# Stand-in of the installer in rancher/flannel-cni: puts the CNI plugins and their configuration on the host, and stays.
set -eu

for plugin in /opt/cni/bin/*; do
	name=$(basename "$plugin")
	cp "$plugin" "/host/opt/cni/bin/.$name"
	mv -f "/host/opt/cni/bin/.$name" "/host/opt/cni/bin/$name"
done
echo "$CNI_NETWORK_CONFIG" >/host/etc/cni/net.d/.new
mv -f /host/etc/cni/net.d/.new "/host/etc/cni/net.d/${CNI_CONF_NAME:-10-flannel.conflist}"
echo "the CNI plugins are installed"
trap 'exit 0' TERM INT
while :; do
	sleep 3600 &
	wait $!
done
