{{- /* The pod template that Deployment and DaemonSet share. */ -}}
{{- define "hookd.podTemplate" -}}
{{- $values := .Values -}}
{{- $cluster := $values.identity.cluster -}}
{{- $rules := include "hookd.ruleConfigMaps" . | fromJson -}}
metadata:
  annotations:
    checksum/settings: {{ include "hookd.coldSettings" . | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- /* Not the chart's version: a new chart alone replaces no pod. */}}
  labels:
    {{- include "hookd.selectorLabels" . | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "hookd.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    {{- with $values.runAsUser }}
    runAsUser: {{ int . }}
    runAsGroup: {{ int . }}
    {{- end }}
    {{- with $values.fsGroup }}
    fsGroup: {{ int . }}
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: hookd
      image: {{ include "hookd.image" . }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: [--config, /etc/hookd/settings/hookd.yaml]
      {{- with $values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - { name: grpc, containerPort: 50051, protocol: TCP }
        - { name: admin, containerPort: 8081, protocol: TCP }
      startupProbe:
        httpGet: { path: /readyz, port: admin }
        periodSeconds: 1
        failureThreshold: 60
      readinessProbe:
        httpGet: { path: /readyz, port: admin }
        periodSeconds: 5
        timeoutSeconds: 2
        failureThreshold: 2
      livenessProbe:
        httpGet: { path: /livez, port: admin }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: settings, mountPath: /etc/hookd/settings, readOnly: true }
        {{- range $index, $name := $rules.managed }}
        - { name: managed-{{ $index }}, mountPath: /etc/hookd/rules/managed/{{ $name }}, readOnly: true }
        {{- end }}
        {{- range $index, $name := $rules.team }}
        - { name: team-{{ $index }}, mountPath: /etc/hookd/rules/team/{{ $name }}, readOnly: true }
        {{- end }}
        {{- if include "hookd.tlsSecret" . }}
        - { name: tls, mountPath: /etc/hookd/tls, readOnly: true }
        {{- end }}
        {{- if or $values.tls.clientCA.secretName $values.tls.clientCA.configMap }}
        - { name: client-ca, mountPath: /etc/hookd/client-ca, readOnly: true }
        {{- end }}
        {{- if $cluster.enabled }}
        {{- if $cluster.jwksConfigMap }}
        - { name: jwks, mountPath: /etc/hookd/jwks, readOnly: true }
        {{- end }}
        {{- if $cluster.jwksFromApiServer }}
        - { name: api-server, mountPath: /var/run/secrets/hookd/api-server, readOnly: true }
        {{- end }}
        {{- end }}
        {{- if $values.identity.tokensSecret }}
        - { name: tokens, mountPath: /etc/hookd/tokens, readOnly: true }
        {{- end }}
        - { name: state, mountPath: /var/lib/hookd }
        - { name: tmp, mountPath: /tmp }
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  {{- /* Modes with group and others may read: the files belong to root, and hookd is not root. None is optional, so a pod
         whose rules are not there does not start. Rules may bring scripts, hence 0555. */}}
  volumes:
    - name: settings
      configMap: { name: {{ include "hookd.fullname" . }}, defaultMode: 0444 }
    {{- range $index, $name := $rules.managed }}
    - name: managed-{{ $index }}
      configMap: { name: {{ $name }}, defaultMode: 0555 }
    {{- end }}
    {{- range $index, $name := $rules.team }}
    - name: team-{{ $index }}
      configMap: { name: {{ $name }}, defaultMode: 0555 }
    {{- end }}
    {{- with include "hookd.tlsSecret" . }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
    {{- end }}
    {{- with $values.tls.clientCA.secretName }}
    - name: client-ca
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items: [{ key: {{ $values.tls.clientCA.key }}, path: {{ $values.tls.clientCA.key }} }]
    {{- end }}
    {{- with $values.tls.clientCA.configMap }}
    - name: client-ca
      configMap: { name: {{ . }}, defaultMode: 0444 }
    {{- end }}
    {{- if $cluster.enabled }}
    {{- with $cluster.jwksConfigMap }}
    - name: jwks
      configMap: { name: {{ . }}, defaultMode: 0444 }
    {{- end }}
    {{- if $cluster.jwksFromApiServer }}
    - name: api-server
      projected:
        defaultMode: 0440
        sources:
          - serviceAccountToken: { path: token, expirationSeconds: 3600 }
          - configMap: { name: kube-root-ca.crt, items: [{ key: ca.crt, path: ca.crt }] }
    {{- end }}
    {{- end }}
    {{- with $values.identity.tokensSecret }}
    - name: tokens
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items: [{ key: tokens.yaml, path: tokens.yaml }]
    {{- end }}
    - name: state
      emptyDir: { sizeLimit: 16Mi }
    - name: tmp
      emptyDir: { sizeLimit: {{ $values.tmpSizeLimit }} }
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if and $values.topologySpread.enabled (eq $values.mode "Deployment") }}
  topologySpreadConstraints:
    {{- range $values.topologySpread.topologyKeys }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $values.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "hookd.selectorLabels" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
