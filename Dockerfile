# The image runs emitted JavaScript with production dependencies alone, as a user without rights, and writes nothing:
# run it with a read-only root file system.
#
#   docker build -t registry-gateway .
#   docker run --read-only -v ./gateway:/etc/registry-gateway:ro -p 8080:8080 registry-gateway
#   docker exec CONTAINER registry-gateway status
#
# Mount the folder that holds gateway.yaml, not the file: a mounted file stays the old one when an editor replaces it.
#
# What runs on any processor is built on the builder's own: an image for another one needs no emulation, as nothing of it is
# run. `npm run release` builds both that are released. Where digests can be looked up, pin the base image by digest too.

FROM --platform=$BUILDPLATFORM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json vite.config.ts ./
COPY src ./src
COPY console ./console
COPY viewer ./viewer
COPY client ./client
# The commit, which --build-arg names: there is no repository here.
ARG SOURCE_REVISION=-
RUN npm run build && chmod 755 dist/main.js

FROM --platform=$BUILDPLATFORM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --no-audit --no-fund --ignore-scripts
RUN mkdir -p root/usr/local/bin && ln -s /app/dist/main.js root/usr/local/bin/registry-gateway

FROM node:24.21.0-bookworm-slim
LABEL org.opencontainers.image.title="registry-gateway" org.opencontainers.image.licenses="Apache-2.0"
# GATEWAY_CONFIG: so that commands in a running container (check, status, purge) find what it serves with.
ENV NODE_ENV=production GATEWAY_CONFIG=/etc/registry-gateway/gateway.yaml
WORKDIR /app
COPY --from=dependencies /build/root /
COPY --from=dependencies /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
COPY package.json ./
USER 1000:1000
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.OPERATIONS_PORT ?? 9090}/livez`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# A third of the memory that Node's own young generation takes under full load, at the same speed.
ENV NODE_OPTIONS=--max-semi-space-size=8
ENTRYPOINT ["node", "dist/main.js"]
CMD ["start"]
