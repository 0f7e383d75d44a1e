package config

// aci.go is about Cisco's plugin, which has more than a hundred settings of text.

// ACI is the typed form of aci's options, by the json names. Every value is a text, a list of
// texts or a list of mappings of texts. The names in cluster.yml are the same words with "_"
// between them; unknown ones are kept.
type ACI map[string]any
