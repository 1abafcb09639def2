{{- /* hookd.yaml as a JSON object: what stands under `settings`, and over it what the chart decides. */ -}}
{{- define "hookd.settings" -}}
{{- $values := .Values -}}
{{- $rules := include "hookd.ruleConfigMaps" . | fromJson -}}
{{- $managed := list -}}
{{- range $rules.managed }}{{ $managed = append $managed (dict "path" (printf "/etc/hookd/rules/managed/%s" .)) }}{{ end -}}
{{- $team := list -}}
{{- range $values.rules.team -}}
{{- $team = append $team (merge (dict "path" (printf "/etc/hookd/rules/team/%s" .configMap)) (omit . "configMap")) -}}
{{- end -}}
{{- /* A project's and a person's rules lie with the caller; what hookd looks for beside its own files is of a laptop. */ -}}
{{- $tiers := dict "local" (dict "sources" list) "shared" (dict "sources" list) "plugin" (dict "sources" list) -}}
{{- $tiers = mergeOverwrite $tiers (deepCopy (default dict $values.settings.tiers)) -}}
{{- $tiers = mergeOverwrite $tiers (dict "managed" (dict "mode" $values.rules.managed.mode "sources" $managed) "team" (dict "sources" $team)) -}}
{{- $own := dict
  "listen" (printf "%s:50051" (include "hookd.listenHost" .))
  "admin_listen" (printf "%s:8081" (include "hookd.listenHost" .))
  "hosts" (splitList "\n" (include "hookd.hosts" . | trim))
  "tiers" $tiers
  "identity" (include "hookd.identity" . | fromJson)
  "permissions" $values.permissions
  "drain" (dict "min_delay" (printf "%ds" (int $values.drain.minDelaySeconds)) "limit" (printf "%ds" (int $values.drain.limitSeconds)))
-}}
{{- if include "hookd.tlsSecret" . -}}
{{- $tls := dict "certificate" "/etc/hookd/tls/tls.crt" "key" "/etc/hookd/tls/tls.key" -}}
{{- if or $values.tls.clientCA.secretName $values.tls.clientCA.configMap -}}
{{- $tls = merge $tls (dict "client_ca" (printf "/etc/hookd/client-ca/%s" $values.tls.clientCA.key) "client_certificates" $values.tls.clientCA.certificates) -}}
{{- end -}}
{{- $_ := set $own "tls" $tls -}}
{{- else -}}
{{- $_ := set $own "plaintext" "allow" -}}
{{- end -}}
{{- $log := dict "log" (dict "format" "json") -}}
{{- mergeOverwrite $log (deepCopy $values.settings) $own | toJson -}}
{{- end -}}

{{- define "hookd.listenHost" -}}
{{- if contains ":" .Values.listenHost }}[{{ .Values.listenHost }}]{{ else }}{{ .Values.listenHost }}{{ end -}}
{{- end -}}

{{- /* What cannot change without a restart. Not in it: what hookd reads again by itself, so that a change of rules, of a
       tier's mode or of fallbacks replaces no pod. */ -}}
{{- define "hookd.coldSettings" -}}
{{- omit (include "hookd.settings" . | fromJson) "tiers" "fallbacks" | toJson -}}
{{- end -}}

{{- define "hookd.identity" -}}
{{- $identity := .Values.identity -}}
{{- $cluster := $identity.cluster -}}
{{- $issuers := list -}}
{{- if $cluster.enabled -}}
{{- $issuer := dict "name" $cluster.name "issuer" $cluster.issuer "audiences" (list $cluster.audience) "algorithms" $cluster.algorithms "labels" $cluster.labels "fixed_labels" $cluster.fixedLabels -}}
{{- if $cluster.jwksConfigMap -}}
{{- $_ := set $issuer "jwks_file" "/etc/hookd/jwks/jwks.json" -}}
{{- else -}}
{{- $_ := set $issuer "jwks_cache" "/var/lib/hookd/jwks" -}}
{{- if $cluster.jwksFromApiServer -}}
{{- $_ := set $issuer "jwks_url" (printf "https://kubernetes.default.svc.%s/openid/v1/jwks" .Values.clusterDomain) -}}
{{- $_ := set $issuer "jwks_ca" "/var/run/secrets/hookd/api-server/ca.crt" -}}
{{- $_ := set $issuer "jwks_token_file" "/var/run/secrets/hookd/api-server/token" -}}
{{- else -}}
{{- $_ := set $issuer "jwks_url" $cluster.jwksUrl -}}
{{- end -}}
{{- end -}}
{{- $issuers = append $issuers $issuer -}}
{{- end -}}
{{- $result := dict "anonymous" $identity.anonymous -}}
{{- with concat $issuers $identity.issuers }}{{ $_ := set $result "issuers" . }}{{ end -}}
{{- if $identity.certificates }}{{ $_ := set $result "certificates" $identity.certificates }}{{ end -}}
{{- if $identity.tokensSecret }}{{ $_ := set $result "tokens_file" "/etc/hookd/tokens/tokens.yaml" }}{{ end -}}
{{- $result | toJson -}}
{{- end -}}
