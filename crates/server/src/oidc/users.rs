//! Who signed in: the user and groups that claims name, and what is kept of them.
//!
//! A user's name belongs to the first subject of the provider that signed in with it. Names are changeable at many providers, subjects are not; another subject
//! with the same name must not get the first one's conversations.

use graph::UserId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::Store;

use super::id_token::Claims;
use super::settings::Settings;
use crate::guard::now_ms;
use crate::name;
use crate::problem::{Problem, StatusCode};
use crate::records;

/// The kind of the documents in the store, one for each subject.
pub(crate) const KIND: &str = "oidc.user";
const GROUPS_MAX: usize = 1_000;
const GROUP_BYTES_MAX: usize = 200;
/// Reserved names: the user of this machine, and the default for users who are not named.
const RESERVED: [&str; 2] = ["local", "default"];

/// A user of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedIn {
    pub(crate) user: UserId,
    pub(crate) groups: Vec<String>,
    /// Names the subject at its provider, and is no digest of anything that can be sent as a token.
    pub(crate) subject: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct StoredUser {
    issuer: String,
    subject: String,
    groups: Vec<String>,
}

/// The user and groups of an ID token that was verified.
pub(super) fn read(settings: &Settings, claims: &Claims) -> Result<SignedIn, Problem> {
    let Some(user) = user_in(settings, claims)? else {
        let has: Vec<&str> = claims.keys().map(String::as_str).take(30).collect();
        tracing::warn!("a sign-in without the claim {}; there are: {}", settings.user_claim, has.join(", "));
        return Err(refused(format!(
            "the provider does not say your name (claim {}); the operator sets scopes and user_claim in [server.oidc]",
            settings.user_claim
        )));
    };
    admit(settings, claims, user, groups_in(settings, claims).unwrap_or_default())
}

/// The same of an access token. Such tokens often have no claims but the subject; then it must be somebody who signed in at the page before.
pub(super) async fn of_access_token(store: &dyn Store, settings: &Settings, claims: &Claims) -> Result<SignedIn, Problem> {
    let user = match user_in(settings, claims)? {
        Some(user) => user,
        None => {
            let entry = store.token(&subject_digest(&settings.issuer, subject_in(claims)), now_ms()).await?;
            entry.map(|entry| entry.user).ok_or_else(|| {
                refused(format!(
                    "the access token does not name its user (claim {}), who has not signed in at the page either; sign in there once, or have the provider add the claim",
                    settings.user_claim
                ))
            })?
        }
    };
    let groups = match groups_in(settings, claims) {
        Some(groups) => groups,
        None => groups_of(store, &user).await?,
    };
    let who = admit(settings, claims, user, groups)?;
    keep(store, settings, claims, &who).await?;
    Ok(who)
}

/// The user that claims name, if they do.
fn user_in(settings: &Settings, claims: &Claims) -> Result<Option<UserId>, Problem> {
    let user_claim = &settings.user_claim;
    let Some(user) = claims.get(user_claim).and_then(Value::as_str) else { return Ok(None) };
    if user_claim == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
        return Err(refused("the provider has not verified your e-mail address, which is your name here"));
    }
    if RESERVED.contains(&user) {
        return Err(refused(format!("the name {user} is reserved here; the operator chooses another claim (user_claim in [server.oidc])")));
    }
    name::user(user).map(Some).map_err(|why| refused(format!("your name at the provider cannot be used here: {why}")))
}

/// The groups that claims name, if they name any.
fn groups_in(settings: &Settings, claims: &Claims) -> Option<Vec<String>> {
    let named = |group: &str| settings.groups.get(group).cloned().unwrap_or_else(|| group.to_owned());
    let mut groups: Vec<String> = match claims.get(&settings.groups_claim)? {
        Value::String(one) => vec![named(one)],
        Value::Array(all) => all.iter().filter_map(Value::as_str).take(GROUPS_MAX).map(named).collect(),
        _ => Vec::new(),
    };
    groups.retain(|group| group.len() <= GROUP_BYTES_MAX);
    groups.sort();
    groups.dedup();
    Some(groups)
}

fn admit(settings: &Settings, claims: &Claims, user: UserId, groups: Vec<String>) -> Result<SignedIn, Problem> {
    if !settings.required_groups.is_empty() && !settings.required_groups.iter().any(|required| groups.contains(required)) {
        return Err(refused("you are in none of the groups that may use this server; ask its operator"));
    }
    Ok(SignedIn { user, groups, subject: subject_digest(&settings.issuer, subject_in(claims)) })
}

fn subject_in(claims: &Claims) -> &str {
    claims.get("sub").and_then(Value::as_str).unwrap_or_default()
}

/// Stores the claims, unless the name belongs to another user.
pub(super) async fn keep(store: &dyn Store, settings: &Settings, claims: &Claims, signed_in: &SignedIn) -> Result<(), Problem> {
    let SignedIn { user, groups, subject } = signed_in;
    let key: String = subject.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = StoredUser { issuer: settings.issuer.clone(), subject: subject_in(claims).to_owned(), groups: groups.clone() };
    let is_known = store.record(user, KIND, &key).await?.is_some();
    records::put(store, user, KIND, &key, &kept).await?;
    // Written before it is compared, so that of two first sign-ins at the same time exactly one keeps the name.
    if owner(of_user(store, user).await?).is_none_or(|owner| owner.key == key) {
        return Ok(());
    }
    if !is_known {
        store.drop_record(user, KIND, &key).await?;
    }
    tracing::warn!(%user, "a sign-in was refused: the name belongs to another subject of the provider");
    Err(refused(format!("the name {user} belongs to another user here; ask the operator, who can delete that user's data or choose another claim")))
}

/// The first subject that signed in under a name.
fn owner(mut all: Vec<records::StoredRecord<StoredUser>>) -> Option<records::StoredRecord<StoredUser>> {
    all.sort_by(|one, other| (one.created_ms, &one.key).cmp(&(other.created_ms, &other.key)));
    all.into_iter().next()
}

/// The groups that a user was in at the last sign-in.
pub(crate) async fn groups_of(store: &dyn Store, user: &UserId) -> Result<Vec<String>, Problem> {
    Ok(owner(of_user(store, user).await?).map(|kept| kept.value.groups).unwrap_or_default())
}

/// The groups of all users, for runs that are resumed before anybody signs in.
pub(crate) async fn load(store: &dyn Store) -> Result<Vec<(UserId, Vec<String>)>, Problem> {
    let mut all = Vec::new();
    let mut pages = records::Pages::<StoredUser>::of(KIND);
    while let Some(page) = pages.next(store).await? {
        all.extend(page);
    }
    // The owner of each name comes first.
    all.sort_by(|one, other| (&one.user, one.created_ms, &one.key).cmp(&(&other.user, other.created_ms, &other.key)));
    all.dedup_by(|later, earlier| later.user == earlier.user);
    Ok(all.into_iter().map(|kept| (kept.user, kept.value.groups)).collect())
}

async fn of_user(store: &dyn Store, user: &UserId) -> Result<Vec<records::StoredRecord<StoredUser>>, Problem> {
    records::list(store, user, KIND, "").await
}

/// The complement of a digest: finding a text that has it as its digest would be breaking SHA-256, so nobody can send one as a token.
fn subject_digest(issuer: &str, subject: &str) -> [u8; 32] {
    let digest: [u8; 32] = Sha256::digest(format!("{issuer}\n{subject}")).into();
    digest.map(|byte| !byte)
}

fn refused(words: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "refused", words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use store::MemoryStore;

    fn settings() -> Settings {
        let groups = [("baton-admins".to_owned(), "operators".to_owned())].into();
        Settings { issuer: "https://login.example".into(), client_id: "baton".into(), groups, ..Settings::default() }
    }

    fn claims(value: Value) -> Claims {
        match value {
            Value::Object(claims) => claims,
            other => panic!("{other} is not an object"),
        }
    }

    #[test]
    fn claims_name_the_user_and_the_groups() {
        let who =
            read(&settings(), &claims(json!({ "sub": "1", "preferred_username": "ada", "groups": ["staff", "baton-admins", "staff", 7] }))).unwrap();
        assert_eq!((who.user.as_str(), who.groups), ("ada", vec!["operators".to_owned(), "staff".to_owned()]));
        let one = read(&settings(), &claims(json!({ "sub": "1", "preferred_username": "ada", "groups": "staff" }))).unwrap();
        assert_eq!(one.groups, ["staff"]);
    }

    #[test]
    fn nobody_becomes_the_user_of_this_machine_or_leaves_a_folder() {
        for (user, words) in [
            (json!("local"), "reserved"),
            (json!("default"), "reserved"),
            (json!("../ada"), "cannot be used"),
            (json!("a/b"), "cannot be used"),
            (json!(""), "cannot be used"),
            (json!(".hidden"), "cannot be used"),
            (json!("ad\u{430}"), "cannot be used"),
            (json!(7), "does not say your name"),
            (json!(null), "does not say your name"),
        ] {
            let refused = read(&settings(), &claims(json!({ "sub": "1", "preferred_username": user }))).unwrap_err();
            assert!(refused.status == 403 && refused.message.contains(words), "{user}: {}", refused.message);
        }
        let by_mail = Settings { user_claim: "email".into(), ..settings() };
        let mail = |verified: Value| read(&by_mail, &claims(json!({ "sub": "1", "email": "ada@example.org", "email_verified": verified })));
        assert!(mail(json!(true)).is_ok());
        for verified in [json!(false), json!("true"), json!(null)] {
            assert!(mail(verified).is_err());
        }
    }

    #[test]
    fn only_members_may_sign_in_where_groups_are_required() {
        let required = Settings { required_groups: vec!["staff".into()], ..settings() };
        let of = |groups: Value| read(&required, &claims(json!({ "sub": "1", "preferred_username": "ada", "groups": groups })));
        assert!(of(json!(["staff"])).is_ok());
        assert!(of(json!(["guests"])).is_err() && of(json!(null)).is_err());
    }

    #[tokio::test]
    async fn a_name_belongs_to_the_first_subject() {
        let store = MemoryStore::new();
        let sign_in = async |subject: &str, groups: Value| {
            let claims = claims(json!({ "sub": subject, "preferred_username": "ada", "groups": groups }));
            let who = read(&settings(), &claims).unwrap();
            keep(&store, &settings(), &claims, &who).await
        };
        sign_in("1", json!(["staff"])).await.unwrap();
        assert!(sign_in("2", json!(["operators"])).await.unwrap_err().message.contains("another user"));
        assert_eq!(groups_of(&store, &"ada".into()).await.unwrap(), ["staff"]);
        sign_in("1", json!(["writers"])).await.unwrap();
        assert_eq!(load(&store).await.unwrap(), [("ada".into(), vec!["writers".to_owned()])]);
        assert!(groups_of(&store, &"bob".into()).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_access_token_without_a_name_belongs_to_who_signed_in_before() {
        let store = MemoryStore::new();
        let bare = claims(json!({ "sub": "1" }));
        let refused = of_access_token(&store, &settings(), &bare).await.unwrap_err();
        assert!(refused.status == 403 && refused.message.contains("sign in there once"), "{}", refused.message);
        let full = claims(json!({ "sub": "1", "preferred_username": "ada", "groups": ["baton-admins"] }));
        let who = of_access_token(&store, &settings(), &full).await.unwrap();
        assert_eq!((who.user.as_str(), who.groups.as_slice()), ("ada", ["operators".to_owned()].as_slice()));
        // What the page's sign-in leaves behind.
        let entry = store::NewToken { digest: who.subject, user: who.user.clone(), made_with: None, created_ms: 0, until_ms: None, scope: None };
        store.keep_token(entry).await.unwrap();
        let again = of_access_token(&store, &settings(), &bare).await.unwrap();
        assert_eq!((again.user.as_str(), again.groups.as_slice()), ("ada", ["operators".to_owned()].as_slice()));
        let impostor = claims(json!({ "sub": "2", "preferred_username": "ada" }));
        assert!(of_access_token(&store, &settings(), &impostor).await.unwrap_err().message.contains("another user"));
    }
}
