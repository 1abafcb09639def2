{{- define "hookd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 52 bytes, so that what is put behind it ("-headless") still makes a name. */ -}}
{{- define "hookd.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hookd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hookd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hookd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "hookd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hookd.metadata" -}}
name: {{ include "hookd.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "hookd.labels" . | nindent 2 }}
{{- end -}}

{{- define "hookd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "hookd.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "hookd.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* Empty where callers speak plain text. */ -}}
{{- define "hookd.tlsSecret" -}}
{{- if .Values.tls.secretName -}}
{{- .Values.tls.secretName -}}
{{- else if .Values.tls.certManager.enabled -}}
{{- printf "%s-tls" (include "hookd.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "hookd.scheme" -}}
{{- if include "hookd.tlsSecret" . }}https{{ else }}http{{ end -}}
{{- end -}}

{{- /* In the clear it is the name that Kubernetes has for HTTP/2 without TLS; under TLS hookd ends it itself, and whatever
       stands between has to leave the bytes alone, which a mesh does for `https` and would not for `grpc`. */ -}}
{{- define "hookd.appProtocol" -}}
{{- if .Values.service.appProtocol -}}
{{- .Values.service.appProtocol -}}
{{- else if include "hookd.tlsSecret" . -}}
https
{{- else -}}
kubernetes.io/h2c
{{- end -}}
{{- end -}}

{{- /* The names by which callers address hookd, one a line: its certificate has them, and plain HTTP takes no other. */ -}}
{{- define "hookd.hosts" -}}
{{- $full := include "hookd.fullname" . -}}
{{- range $name := list $full (printf "%s-headless" $full) }}
{{ printf "%s.%s.svc.%s" $name $.Release.Namespace $.Values.clusterDomain }}
{{ printf "%s.%s.svc" $name $.Release.Namespace }}
{{ printf "%s.%s" $name $.Release.Namespace }}
{{ $name }}
{{- end }}
localhost
{{- range .Values.service.hosts }}
{{ . }}
{{- end }}
{{- end -}}

{{- /* {"managed": [names], "team": [names]}: the ConfigMaps with rules, each mounted as a directory of its own. */ -}}
{{- define "hookd.ruleConfigMaps" -}}
{{- $managed := list -}}
{{- if .Values.rules.managed.files -}}
{{- $managed = append $managed (printf "%s-rules" (include "hookd.fullname" .)) -}}
{{- end -}}
{{- $team := list -}}
{{- range .Values.rules.team }}{{ $team = append $team .configMap }}{{ end -}}
{{- dict "managed" (concat $managed .Values.rules.managed.configMaps) "team" $team | toJson -}}
{{- end -}}
