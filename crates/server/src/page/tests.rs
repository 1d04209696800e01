use super::*;

const HTML: &str = "<link href=\"/assets/a.css\"><script type=\"importmap\">{\"imports\": {\"preact\": \"/assets/p.mjs\"}}</script><script type=\"module\" src=\"/assets/m.js\"></script>";

#[test]
fn every_address_has_its_hash_and_the_policy_names_the_map() {
    let files: [(&str, &[u8]); 4] = [("index.html", HTML.as_bytes()), ("a.css", b"a{}"), ("p.mjs", b"export{}"), ("m.js", b"import './x.js'")];
    let packed = pack(&files);
    let html = String::from_utf8(packed["index.html"].plain.to_vec()).unwrap();
    let address = |name: &str| format!("/assets/{name}?v={}", packed[name].hash);
    assert!(html.contains(&format!("href=\"{}\"", address("a.css"))) && html.contains(&format!("src=\"{}\"", address("m.js"))), "{html}");
    let map: Value = serde_json::from_str(&html[import_map(&html).unwrap()]).unwrap();
    assert_eq!(map["imports"]["preact"], json!(address("p.mjs")));
    assert_eq!(map["imports"]["/assets/m.js"], json!(address("m.js")));
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(html[import_map(&html).unwrap()].as_bytes()));
    assert!(policy(&html).contains(&format!("script-src 'self' 'sha256-{digest}';")));
}

/// What is in the binary is what is in `web/`.
#[test]
fn the_list_of_files_is_the_folder() {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => walk(&path, root, found),
                // Words for whoever works on it are not served.
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
