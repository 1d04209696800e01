{{- define "baton.name" -}}
{{ .Release.Name }}-{{ .Chart.Name }}
{{- end -}}

{{- define "baton.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "baton.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "baton.pod" -}}
metadata:
  labels:
    {{- include "baton.labels" . | nindent 4 }}
  annotations:
    # A changed configuration replaces the servers one after the other.
    checksum/config: {{ .Values.config | sha256sum }}
spec:
  automountServiceAccountToken: false
  # Runs are put down in order and given back; other servers continue them.
  terminationGracePeriodSeconds: 20
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    fsGroup: 1000
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: baton
      image: {{ include "baton.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - --db
        - /data/baton.db
        {{- if eq .Values.store.mode "postgres" }}
        - --store
        - {{ required "store.url names the Postgres of mode postgres" .Values.store.url | quote }}
        {{- end }}
        - serve
        - --host
        - 0.0.0.0
        - --port
        - "8080"
        - --token-file
        - /etc/baton/token/token
      env:
        - { name: BATON_CONFIG, value: /etc/baton/config/baton.toml }
        - { name: XDG_CACHE_HOME, value: /data/cache }
        {{- if eq .Values.store.mode "postgres" }}
        - name: BATON_STORE_PASSWORD
          valueFrom:
            secretKeyRef:
              name: {{ required "store.passwordSecret names the Secret with the password" .Values.store.passwordSecret | quote }}
              key: {{ .Values.store.passwordKey | quote }}
        {{- end }}
      {{- if .Values.environmentSecrets }}
      envFrom:
        {{- range .Values.environmentSecrets }}
        - secretRef: { name: {{ . | quote }} }
        {{- end }}
      {{- end }}
      ports:
        - { name: http, containerPort: 8080 }
      # Alive while it answers; ready while the store does too. A server whose database is away must not be restarted: its runs wait.
      livenessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 3
        failureThreshold: 2
      startupProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 2
        failureThreshold: 60
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
        - { name: config, mountPath: /etc/baton/config, readOnly: true }
        - { name: token, mountPath: /etc/baton/token, readOnly: true }
  volumes:
    - name: tmp
      emptyDir: { sizeLimit: 1Gi }
    - name: config
      configMap: { name: {{ include "baton.name" . }} }
    - name: token
      secret: { secretName: {{ required "tokenSecret names the Secret with the key token" .Values.tokenSecret | quote }} }
    {{- if eq .Values.store.mode "postgres" }}
    - name: data
      emptyDir: { sizeLimit: {{ .Values.persistence.size }} }
    {{- end }}
  {{- if .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml .Values.nodeSelector | nindent 4 }}
  {{- end }}
  {{- if .Values.tolerations }}
  tolerations:
    {{- toYaml .Values.tolerations | nindent 4 }}
  {{- end }}
  {{- if .Values.affinity }}
  affinity:
    {{- toYaml .Values.affinity | nindent 4 }}
  {{- end }}
{{- end -}}
