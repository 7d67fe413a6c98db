declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  /** The part of Swagger UI that is used here: https://swagger.io/docs/open-source-tools/swagger-ui/ */
  export default function SwaggerUI(options: {
    readonly domNode: Element;
    readonly url: string;
    readonly deepLinking: boolean;
    readonly docExpansion: "list" | "full" | "none";
    readonly filter: boolean;
    readonly tryItOutEnabled: boolean;
    readonly plugins: readonly object[];
    readonly requestInterceptor: (request: { url: string }) => object;
  }): void;
}

declare module "*.css";
