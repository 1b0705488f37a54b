{{- define "fleetpace.labels" -}}
app.kubernetes.io/name: fleetpace
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "fleetpace.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "fleetpace.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "fleetpace.pod" -}}
automountServiceAccountToken: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fleetpace.container" -}}
name: {{ .component }}
{{- with .root.Values.image }}
image: {{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ .pullPolicy }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "fleetpace.environment" -}}
- name: FLEETPACE_REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.redis.secretName }}
      key: {{ .Values.redis.secretKey }}
- name: FLEETPACE_PREFIX
  value: {{ .Values.prefix | quote }}
{{- end }}
