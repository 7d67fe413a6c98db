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

{{- define "gateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gateway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gateway.secret" -}}
{{- default (include "gateway.fullname" .) .Values.secret.existing -}}
{{- end -}}

{{- define "gateway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* A port of the configuration file, which a Service and probes have to know. A file makes it float64, --set int64. */}}
{{- define "gateway.port" -}}
{{- if not (has (kindOf .port) (list "float64" "int64" "int")) -}}
{{- fail (printf "config.%s.port: the chart needs a number" .listener) -}}
{{- end -}}
{{- int .port -}}
{{- end -}}

{{/* The configuration file: the user's, and what the chart's other objects need of it. */}}
{{- define "gateway.config" -}}
{{- if not (or .Values.config.upstreams .Values.config.discovery) -}}
{{- fail "config.upstreams: name at least one registry, or set config.discovery" -}}
{{- end -}}
{{- $operations := dict "host" "0.0.0.0" "tokenFile" "/run/secrets/registry-gateway/operations-token" -}}
{{- $own := dict "operations" $operations -}}
{{- if or .Values.redis.url .Values.redis.existingSecret.name -}}
{{- if .Values.config.redis -}}
{{- fail "redis.url and redis.existingSecret go without config.redis: say in one place where Redis is" -}}
{{- end -}}
{{- if and .Values.redis.url .Values.redis.existingSecret.name -}}
{{- fail "redis.url goes without redis.existingSecret: say in one place where Redis is" -}}
{{- end -}}
{{- if and .Values.redis.url .Values.secret.existing -}}
{{- fail "redis.url would be kept in the chart's own Secret, and secret.existing says to make none: use redis.existingSecret" -}}
{{- end -}}
{{- $file := "/run/secrets/registry-gateway/redis-url" -}}
{{- if .Values.redis.existingSecret.name -}}
{{- $file = printf "/run/secrets/redis/%s" .Values.redis.existingSecret.key -}}
{{- end -}}
{{- $_ := set $own "redis" (dict "urlFile" $file) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end -}}
