use super::*;

const HTML: &str = "<link href=\"/assets/a.css\"><script type=\"importmap\">{\"imports\": {\"preact\": \"/assets/p.mjs\"}}</script><script type=\"module\" src=\"/assets/m.js\"></script>";

#[test]
fn every_address_has_its_hash_and_the_policy_names_the_map() {
    let files: [(&str, &[u8]); 4] = [("index.html", HTML.as_bytes()), ("a.css", b"a{}"), ("p.mjs", b"export{}"), ("m.js", b"import './x.js'")];
    let packed = pack(&files);
    let html = String::from_utf8(packed["index.html"].plain.clone().unwrap().to_vec()).unwrap();
    let address = |name: &str| format!("/assets/{name}?v={}", packed[name].hash);
    assert!(html.contains(&format!("href=\"{}\"", address("a.css"))) && html.contains(&format!("src=\"{}\"", address("m.js"))), "{html}");
    let map: Value = serde_json::from_str(&html[import_map(&html).unwrap()]).unwrap();
    assert_eq!(map["imports"]["preact"], json!(address("p.mjs")));
    assert_eq!(map["imports"]["/assets/m.js"], json!(address("m.js")));
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(html[import_map(&html).unwrap()].as_bytes()));
    assert!(policy(&html).contains(&format!("script-src 'self' 'sha256-{digest}';")));
}

#[tokio::test]
async fn a_file_that_is_stored_compressed_is_served_under_its_name() {
    let body = async |response: Response| axum::body::to_bytes(response.into_body(), 16 << 20).await.unwrap();
    let accepted = |value: &'static str| HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
    let (name, stored) = files::FILES.iter().find(|(name, _)| name.ends_with(STORED_GZIP)).unwrap();
    let packed = pack(&[(name, stored)]);
    let name = name.trim_end_matches(STORED_GZIP);
    let gzip = packed[name].respond(name, &accepted("gzip, br"), false);
    assert_eq!(
        (&gzip.headers()["content-encoding"], &gzip.headers()["content-type"]),
        (&"gzip".parse().unwrap(), &"text/javascript; charset=utf-8".parse().unwrap())
    );
    assert_eq!(body(gzip).await, *stored);
    let plain = packed[name].respond(name, &accepted("identity"), false);
    assert!(!plain.headers().contains_key("content-encoding"));
    let plain = body(plain).await;
    assert!(plain.len() > stored.len() && std::str::from_utf8(&plain).unwrap().contains("mermaid"));
}

/// The frame can load its two scripts and nothing else, has no origin, and can be framed by the page alone.
#[tokio::test]
async fn the_frame_of_diagrams_has_a_policy_of_its_own() {
    let page = Page(Arc::new(Source::Packed(pack(files::FILES))));
    let get = async |path: &str| asset(State(page.clone()), UrlPath(path.to_owned()), RawQuery(None), HeaderMap::new()).await;
    let frame = get(DIAGRAM_FRAME).await;
    assert_eq!(frame.headers()["content-security-policy"], DIAGRAM_POLICY);
    assert!(["default-src 'none'", "sandbox allow-scripts", "frame-ancestors 'self'"].iter().all(|part| DIAGRAM_POLICY.contains(part)));
    assert!(["connect-src", "img-src", "allow-same-origin", "'unsafe-eval'"].iter().all(|part| !DIAGRAM_POLICY.contains(part)));
    for name in DIAGRAM_SCRIPTS {
        let script = get(name).await;
        assert_eq!(
            (script.status(), &script.headers()["cross-origin-resource-policy"]),
            (StatusCode::OK, &"cross-origin".parse().unwrap()),
            "{name}"
        );
    }
    for other in ["js/main.js", "icon.svg"] {
        assert!(!get(other).await.headers().contains_key("cross-origin-resource-policy"), "{other}");
    }
}

/// The modules of `web/` have no syntax that the bundle does not know. A browser test runs it.
#[test]
fn the_start_of_the_page_is_one_module_and_one_style_sheet() {
    let plain: BTreeMap<String, Vec<u8>> = files::FILES.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    let bundled = bundle::bundle(plain.clone()).unwrap();
    let text = |name: &str| String::from_utf8(bundled[name].clone()).unwrap();
    let (html, main) = (text(INDEX), text("js/main.js"));
    assert_eq!((html.matches("rel=\"stylesheet\"").count(), html.matches("modulepreload").count()), (1, 3), "{html}");
    let statement = |line: &&str| line.starts_with("import ") || line.starts_with("export ");
    let statements: Vec<&str> = main.lines().filter(statement).collect();
    assert!(statements.len() <= 4 && statements.last() == Some(&"export const modules = {};"), "{statements:?}");
    let gone: Vec<&String> = plain.keys().filter(|name| !bundled.contains_key(*name)).collect();
    assert!(gone.len() > 30 && gone.iter().all(|name| main.contains(&format!("modules[\"{name}\"] = {{"))), "{gone:?}");
    let tools = text("js/view/tools.js");
    assert!(
        tools.starts_with("import { modules } from \"/assets/js/main.js\";\n") && tools.contains("t } = modules[\"js/core/words.js\"];"),
        "{tools}"
    );
    assert!(main.contains("import(\"/assets/js/view/tools.js\")") && !main.contains("import(\"."), "dynamic imports are absolute");
}

#[test]
fn modules_that_cannot_be_bundled_are_refused() {
    let html = "<link rel=\"modulepreload\" href=\"/assets/js/a.js\">\n<script type=\"module\" src=\"/assets/js/main.js\"></script>\n";
    let refused = |main: &str, a: &str| {
        let files = [(INDEX, html), ("js/main.js", main), ("js/a.js", a), ("js/b.js", "export const b = 1;")];
        bundle::bundle(files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()).err().unwrap_or_default()
    };
    assert_eq!(refused("import { a } from \"./a.js\";", "export const a = 1;"), "");
    for (main, a, message) in [
        ("import { a } from \"./a.js\";", "import \"./main.js\";\nexport const a = 1;", "import one another"),
        ("import { a } from \"./a.js\";", "import { b } from \"./b.js\";\nexport const a = b;", "does not preload"),
        ("import * as a from \"./a.js\";", "export const a = 1;", "is not known"),
        ("import { a } from \"./a.js\";", "export default 1;", "is not known"),
        ("", "export const a = 1;", "does not need"),
    ] {
        assert!(refused(main, a).contains(message), "{main}: {:?}", refused(main, a));
    }
}

/// What is in the binary is what is in `web/`.
#[test]
fn the_list_of_files_is_the_folder() {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => walk(&path, root, found),
                // Comments for developers are not served.
                false if path.extension().is_some_and(|ending| ending == "md") => {}
                false => found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned()),
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    found.sort();
    let lines: String = found.iter().map(|name| format!("    file!(\"{name}\"),\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/files.rs");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, _) = text.split_once("pub(super) const FILES").unwrap();
    let list = if found.is_empty() { "&[];\n".to_owned() } else { format!("&[\n{lines}];\n") };
    let wanted = format!("{head}pub(super) const FILES: &[(&str, &[u8])] = {list}");
    if text != wanted {
        std::fs::write(&path, &wanted).unwrap();
        panic!("{} was not what is in web/; it is now. Run this again, and commit it", path.display());
    }
}
