//! TCP with TLS: independent clients read the data that they wrote. Clients without TLS, or with
//! the wrong certificate, are refused.

mod common;

use std::fs;
use std::path::PathBuf;
use std::thread::JoinHandle;

use bimetal_device::drive::Engine;
use bimetal_serve::server::{Credentials, Endpoint, Handle, ServeError, Server, ServerOptions, Summary, Tcp};
use common::{Plan, Scratch, has, noise, run, run_any, volume};

const PLAN: Plan = Plan { scheme: "ssd-only", settings: &[], ssd_mib: 48, hdd_mib: 0, engine: Engine::Auto };

/// Server at a TCP port, and certificates: `ours` has all files of server and client, `nobody` only
/// the authority, `stranger` all files, of another authority.
struct Encrypted {
    scratch: Scratch,
    uri: String,
    handle: Handle,
    thread: JoinHandle<Result<Summary, ServeError>>,
}

/// Makes a key and a certificate for `who` in `directory`, signed by the authority in that
/// directory, or self-signed for the authority.
fn certify(directory: &str, who: &str) {
    let file = |name: &str| format!("{directory}/{name}.pem");
    let (key, certificate) = (file(&format!("{who}-key")), file(&format!("{who}-cert")));
    let mut line =
        vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"];
    line.extend(["-keyout", &key, "-out", &certificate]);
    let (authority, authority_key) = (file("ca-cert"), file("ca-key"));
    if who == "ca" {
        line.extend(["-subj", "/CN=authority"]);
    } else {
        line.extend(["-CA", &authority, "-CAkey", &authority_key, "-subj", "/CN=localhost"]);
        line.extend(["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=DNS:localhost"]);
    }
    run("openssl", &line);
}

fn certificates() -> Scratch {
    let scratch = Scratch::new();
    for name in ["ours", "stranger"] {
        fs::create_dir(scratch.path(name)).unwrap();
        ["ca", "server", "client"].iter().for_each(|who| certify(scratch.path(name).to_str().unwrap(), who));
    }
    fs::create_dir(scratch.path("nobody")).unwrap();
    fs::copy(scratch.path("ours").join("ca-cert.pem"), scratch.path("nobody").join("ca-cert.pem")).unwrap();
    scratch
}

impl Encrypted {
    fn serve(verify_peer: bool) -> Self {
        let scratch = certificates();
        let credentials = Credentials::read(&scratch.path("ours"), verify_peer).unwrap();
        let (volume, drives) = volume(PLAN, &scratch, true);
        let options = ServerOptions {
            signals: false,
            names: vec!["disk".into()],
            tcp: Tcp::Tls(credentials),
            ..ServerOptions::default()
        };
        let mut server = Server::new(volume, drives, options).unwrap();
        let uri = server.listen(&Endpoint::Tcp("localhost:0".into())).unwrap();
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run());
        Self { scratch, uri, handle, thread }
    }

    /// Returns the URI for a client with the certificates in `directory`.
    fn with(&self, directory: &str) -> String {
        format!("{}?tls-certificates={}", self.uri, self.scratch.path(directory).display())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    fn stop(self) {
        self.handle.stop().unwrap();
        assert!(self.thread.join().unwrap().unwrap().clean);
    }
}

#[test]
fn what_is_copied_over_tls_is_the_same_when_it_comes_back() {
    if !has(&["openssl", "nbdinfo", "nbdcopy", "qemu-img"]) {
        return;
    }
    let server = Encrypted::serve(true);
    assert!(server.uri.starts_with("nbds://localhost:"), "{}", server.uri);
    let uri = server.with("ours");
    let info = run("nbdinfo", &["--json", &uri]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["TLS"], true, "{info}");
    let content = noise(info["exports"][0]["export-size"].as_u64().unwrap() as usize, 5);
    fs::write(server.file("there"), &content).unwrap();
    run("nbdcopy", &["--flush", server.file("there").to_str().unwrap(), &uri]);
    run("nbdcopy", &[&uri, server.file("back").to_str().unwrap()]);
    assert!(fs::read(server.file("back")).unwrap() == content, "what comes back differs");

    let port = server.uri.trim_start_matches("nbds://localhost:").trim_end_matches("/disk").to_owned();
    let credentials = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", server.file("ours").display());
    let image = format!("driver=nbd,host=localhost,port={port},export=disk,tls-creds=tls");
    let info = run("qemu-img", &["info", "--object", &credentials, "--image-opts", &image]);
    assert!(info.contains("virtual size"), "{info}");
    server.stop();
}

#[test]
fn client_without_tls_or_right_certificate_is_refused() {
    if !has(&["openssl", "nbdinfo"]) {
        return;
    }
    let server = Encrypted::serve(true);
    let refused = |uri: &str| {
        let output = run_any("nbdinfo", &["--size", uri]);
        assert!(!output.status.success(), "{uri} is let in");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = refused(&server.uri.replace("nbds:", "nbd:"));
    assert!(told.contains("TLS"), "{told}");
    // The client `nobody` has no certificate. The server does not know the certificate of
    // `stranger`, and `stranger` does not know the server's.
    refused(&server.with("nobody"));
    refused(&server.with("stranger"));
    fs::copy(server.file("ours").join("ca-cert.pem"), server.file("stranger").join("ca-cert.pem")).unwrap();
    refused(&server.with("stranger"));
    run("nbdinfo", &["--size", &server.with("ours")]);
    server.stop();

    // If no client certificate is required, encryption alone is enough.
    let server = Encrypted::serve(false);
    run("nbdinfo", &["--size", &server.with("nobody")]);
    refused(&server.uri.replace("nbds:", "nbd:"));
    refused(&server.with("stranger"));
    server.stop();
}

#[test]
fn certificates_that_are_of_no_use_are_refused_with_the_file() {
    if !has(&["openssl"]) {
        return;
    }
    let scratch = certificates();
    let refused = |directory: &str, verify_peer| {
        Credentials::read(&scratch.path(directory), verify_peer).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused("nobody", false).contains("server-cert.pem"));
    let (ours, stranger) = (scratch.path("ours"), scratch.path("stranger"));
    fs::copy(stranger.join("server-key.pem"), ours.join("server-key.pem")).unwrap();
    assert!(refused("ours", false).contains("do not fit"), "{}", refused("ours", false));
    fs::write(ours.join("server-key.pem"), "no key").unwrap();
    assert!(refused("ours", false).contains("server-key.pem"));
    fs::remove_file(stranger.join("ca-cert.pem")).unwrap();
    assert!(refused("stranger", true).contains("ca-cert.pem"));
    assert!(Credentials::read(&stranger, false).is_ok(), "the authority is not needed to show a certificate");
}
