{{- /* What must not be installed. Each says in one line what is wrong and what would be right; the tests break every one. */ -}}
{{- define "hookd.guards" -}}
{{- $values := .Values -}}
{{- $tls := include "hookd.tlsSecret" . -}}
{{- $clientCA := or $values.tls.clientCA.secretName $values.tls.clientCA.configMap -}}

{{- if not $values.image.repository }}
{{- fail "image.repository is not set: push the image that deploy/Containerfile makes to your registry and name it" }}
{{- end }}

{{- if and (not $tls) (not $values.plaintext) }}
{{- fail "how callers reach hookd is not said: set tls.secretName, tls.certManager.enabled, or plaintext: true" }}
{{- end }}
{{- if and $tls $values.plaintext }}
{{- fail "plaintext: true and tls exclude each other: drop one of them" }}
{{- end }}
{{- if and $values.tls.certManager.enabled (not $values.tls.certManager.issuerRef.name) }}
{{- fail "tls.certManager.issuerRef.name is not set: name the issuer of cert-manager that signs hookd's certificate" }}
{{- end }}
{{- if and $values.tls.clientCA.secretName $values.tls.clientCA.configMap }}
{{- fail "tls.clientCA.secretName and tls.clientCA.configMap exclude each other: drop one of them" }}
{{- end }}
{{- if and $clientCA (not $tls) }}
{{- fail "tls.clientCA needs TLS: set tls.secretName or tls.certManager.enabled" }}
{{- end }}

{{- $cluster := $values.identity.cluster }}
{{- if not (or (eq $values.identity.anonymous "allow") $clientCA $cluster.enabled $values.identity.issuers $values.identity.tokensSecret) }}
{{- fail "nobody could call: set identity.cluster.enabled, identity.issuers, identity.tokensSecret, tls.clientCA, or identity.anonymous: allow" }}
{{- end }}
{{- $keys := 0 }}
{{- if $cluster.jwksUrl }}{{ $keys = add1 $keys }}{{ end }}
{{- if $cluster.jwksConfigMap }}{{ $keys = add1 $keys }}{{ end }}
{{- if $cluster.jwksFromApiServer }}{{ $keys = add1 $keys }}{{ end }}
{{- if and $cluster.enabled (ne (int $keys) 1) }}
{{- fail "identity.cluster needs its keys from one place: set one of jwksUrl, jwksConfigMap and jwksFromApiServer" }}
{{- end }}

{{- $rules := include "hookd.ruleConfigMaps" . | fromJson }}
{{- if not $rules.managed }}
{{- fail "there are no managed rules: set rules.managed.files or rules.managed.configMaps" }}
{{- end }}
{{- range $tier, $names := $rules }}
{{- if ne (len (default list $names)) (len (uniq (default list $names))) }}
{{- fail (printf "rules.%s names a ConfigMap twice: %s" $tier (join ", " (default list $names))) }}
{{- end }}
{{- end }}
{{- range $name, $_ := $values.rules.managed.files }}
{{- if not (regexMatch "^[A-Za-z0-9_-][A-Za-z0-9._-]*\\.(json|ya?ml|sh|py|js)$" $name) }}
{{- fail (printf "rules.managed.files has %q, which hookd would pass over: rules end in .json, .yaml or .yml, their scripts in .sh, .py or .js" $name) }}
{{- end }}
{{- end }}

{{- $owned := dict
  "listen" "listenHost" "admin_listen" "listenHost" "hosts" "service.hosts" "tls" "tls" "plaintext" "plaintext"
  "identity" "identity" "permissions" "permissions" "drain" "drain" }}
{{- range $key, $instead := $owned }}
{{- if hasKey $values.settings $key }}
{{- fail (printf "settings.%s is the chart's to write: set %s" $key $instead) }}
{{- end }}
{{- end }}
{{- $tiers := default dict $values.settings.tiers }}
{{- range $tier := list "managed" "team" }}
{{- if hasKey (default dict (get $tiers $tier)) "sources" }}
{{- fail (printf "settings.tiers.%s.sources is the chart's to write: set rules.%s" $tier $tier) }}
{{- end }}
{{- end }}
{{- if hasKey (default dict $tiers.managed) "mode" }}
{{- fail "settings.tiers.managed.mode is the chart's to write: set rules.managed.mode" }}
{{- end }}

{{- $needed := add $values.drain.minDelaySeconds $values.drain.limitSeconds 5 }}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $needed) }}
{{- fail (printf "terminationGracePeriodSeconds is %d, expected at least %d: drain.minDelaySeconds, drain.limitSeconds and 5 seconds to write out the audit trail" (int $values.terminationGracePeriodSeconds) (int $needed)) }}
{{- end }}

{{- if and (eq $values.mode "DaemonSet") $values.autoscaling.enabled }}
{{- fail "autoscaling is for mode: Deployment, a DaemonSet has as many pods as there are nodes" }}
{{- end }}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) }}
{{- fail (printf "autoscaling.minReplicas (%d) is more than autoscaling.maxReplicas (%d)" (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) }}
{{- end }}
{{- if and $values.autoscaling.inFlightCalls.enabled (not $values.autoscaling.enabled) }}
{{- fail "autoscaling.inFlightCalls.enabled does nothing without autoscaling.enabled" }}
{{- end }}
{{- if and $values.autoscaling.enabled (not (dig "requests" "cpu" "" $values.resources)) }}
{{- fail "autoscaling goes by the share of resources.requests.cpu that is used: set it" }}
{{- end }}
{{- if and $values.podDisruptionBudget.enabled (has (toString $values.podDisruptionBudget.maxUnavailable) (list "0" "0%")) }}
{{- fail "podDisruptionBudget.maxUnavailable: 0 would keep nodes from ever being drained: expected 1 or more" }}
{{- end }}
{{- range $values.extraVolumeMounts }}
{{- if hasPrefix "/etc/hookd/rules" .mountPath }}
{{- fail (printf "extraVolumeMounts has %s: rules are mounted by rules.managed and rules.team, as directories that are updated in place" .mountPath) }}
{{- end }}
{{- end }}
{{- end -}}
