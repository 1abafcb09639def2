// Pins what `tests/peers/run` builds OPA from, with its plugin for Envoy. There is no code of ours in it.
module hookd-peers

go 1.25.0

require github.com/open-policy-agent/opa-envoy-plugin v1.19.1-envoy
