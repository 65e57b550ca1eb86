{{- define "raftflow.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name }}{{ end -}}
{{- end }}

{{- define "raftflow.clusterId" -}}
{{ .Values.clusterId | default (include "raftflow.name" .) }}
{{- end }}

{{- define "raftflow.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "raftflow.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end }}

{{- define "raftflow.labels" -}}
{{ include "raftflow.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The host of node number $n, as the others know it. */}}
{{- define "raftflow.host" -}}
{{- $name := include "raftflow.name" .root -}}
{{ $name }}-{{ .number }}.{{ $name }}-nodes.{{ .root.Release.Namespace }}.svc
{{- end }}

{{/* ID=HOST:PORT of the nodes that the cluster is born with. */}}
{{- define "raftflow.peers" -}}
{{- $name := include "raftflow.name" . -}}
{{- $peers := list -}}
{{- range $number := until (int .Values.bootstrapNodes) -}}
{{- $peers = append $peers (printf "%s-%d=%s:9233" $name $number (include "raftflow.host" (dict "root" $ "number" $number))) -}}
{{- end -}}
{{ join "," $peers }}
{{- end }}

{{/* Name of the secret with the certificate of node number $n from cert-manager. */}}
{{- define "raftflow.nodeSecret" -}}
{{ include "raftflow.name" .root }}-{{ .number }}-tls
{{- end }}

{{- define "raftflow.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "raftflow.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}
