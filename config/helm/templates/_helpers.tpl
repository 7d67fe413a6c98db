{{- define "gateway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 52: room for "-operations" within the 63 characters of a label. */}}
{{- define "gateway.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $both .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the pods of this release. */}}
{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "gateway.secret" -}}
{{- default (include "gateway.fullname" .) .Values.secret.existing -}}
{{- end -}}

{{- define "gateway.image" -}}
{{- $repository := required "image.repository: name where you pushed the image" .Values.image.repository -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- ternary (printf "%s:%s" $repository $tag) (printf "%s@%s" $repository .Values.image.digest) (empty .Values.image.digest) -}}
{{- end -}}

{{/* The configuration file: the user's, over what probes, Prometheus and operators need. */}}
{{- define "gateway.config" -}}
{{- $token := dict "name" "ops" "token" "${file:/run/secrets/registry-gateway/operations-token}" -}}
{{- $own := dict "operations" (dict "host" "0.0.0.0" "tokens" (list $token)) -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end -}}
