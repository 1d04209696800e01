//! TLS from files, cookies over it, renewed certificates, and trusted proxies.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use reqwest::{Certificate, Client, Method};
use serde_json::json;

use crate::serve_hostile::token;
use crate::{Home, LOOKS_UP};

impl Home {
    /// A certificate for 127.0.0.1 and its key, created by openssl.
    fn certificate(&self) -> (PathBuf, PathBuf) {
        let (cert, key) = (self.db().with_file_name("tls.crt"), self.db().with_file_name("tls.key"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"])
            .args([
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
                "-keyout",
                key.to_str().unwrap(),
                "-out",
                cert.to_str().unwrap(),
            ])
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "{made:?}");
        (cert, key)
    }
}

/// A client that trusts this certificate and no other.
fn client(certificate: &PathBuf) -> Client {
    let certificate = Certificate::from_pem(&std::fs::read(certificate).unwrap()).unwrap();
    Client::builder().no_proxy().pool_max_idle_per_host(0).tls_certs_only([certificate]).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_uses_the_tls_certificate_of_its_files_also_after_they_change() {
    let home = Home::new();
    let ada = token(&home, "ada");
    let (cert, key) = home.certificate();
    let served = home.serve(&home.script(LOOKS_UP), &["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    assert!(served.url.starts_with("https://"), "{}", served.url);
    let status = |client: Client| {
        let request = client.get(format!("{}/api/status", served.url)).bearer_auth(&ada);
        async move { request.send().await.map(|response| response.status().as_u16()) }
    };
    let first = client(&cert);
    assert_eq!(status(first.clone()).await.unwrap(), 200);
    // Plain HTTP is refused, and the server keeps running.
    assert!(served.client.get(served.url.replace("https", "http")).send().await.is_err());
    let opened = first.post(format!("{}/api/session", served.url)).json(&json!({ "token": ada })).send().await.unwrap();
    let cookie = opened.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("; Secure") && cookie.contains("HttpOnly"), "{cookie}");

    home.certificate();
    let renewed = client(&cert);
    let is_used = async {
        while status(renewed.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_used).await.unwrap();
    assert!(status(first).await.is_err(), "the certificate before is no longer used");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let home = Home::new();
    let (cert, key) = home.certificate();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let serve = |cert: &str, key: &str| home.baton(&["serve", "--port", "0", "--tls-cert", cert, "--tls-key", key]);
    serve("/nowhere", key).complains(2, &["the certificate cannot be read from /nowhere"]);
    serve(cert, "/nowhere").complains(2, &["the key cannot be read from /nowhere"]);
    serve(key, key).complains(2, &["no certificate is in it"]);
    home.baton(&["serve", "--port", "0", "--tls-cert", cert]).complains(2, &["--tls-key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_names_the_client_and_nobody_else() {
    let home = Home::new();
    token(&home, "ada");
    let config = home.db().with_file_name("proxy.toml");
    for (trusted, from) in [("[\"127.0.0.1\"]", "192.0.2.7"), ("[\"10.0.0.0/8\"]", "127.0.0.1")] {
        std::fs::write(&config, format!("[proxy]\ntrusted = {trusted}\n")).unwrap();
        let served = home.serve(&home.script(LOOKS_UP), &["--config", config.to_str().unwrap()]);
        let request = served.request(Method::GET, "/api/status").header("x-forwarded-for", "1.1.1.1, 192.0.2.7").bearer_auth("a wrong token");
        assert_eq!(request.send().await.unwrap().status(), 401);
        // A refusal is recorded soon afterwards.
        let refused = || home.audit(&[]).into_iter().rfind(|line| line["what"] == "sign_in_refused").map(|line| line["from"].clone());
        for _ in 0..100 {
            if refused() == Some(json!(from)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(refused(), Some(json!(from)), "{trusted}");
    }
    std::fs::write(&config, "[proxy]\ntrusted = [\"localhost\"]\n").unwrap();
    home.baton(&["serve", "--port", "0", "--config", config.to_str().unwrap()]).complains(2, &["neither an address nor a network"]);
}
