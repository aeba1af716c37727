//! Where keys come from, request by request.

use super::{
    super::testing::{Asked, answered, asked, sent},
    *,
};

fn cloudwatch(source: Source) -> Asked {
    let mut asked = asked("cloudwatch").region("eu-west-1").query(r#"[{"Id":"a"}]"#);
    asked.ambient.aws = source;
    asked
}

fn signed_by(call: &Call) -> String {
    let proof = call.request.headers["authorization"].to_str().unwrap();
    let (_, id) = proof.split_once("Credential=").unwrap();
    id.split('/').next().unwrap().to_owned()
}

#[test]
fn keys_that_are_there_need_no_request() {
    let keys = Keys { id: "AKID".into(), secret: "s".into(), session: Some("x".into()) };
    let call = cloudwatch(Source::Keys(keys)).call();
    assert_eq!(signed_by(&call), "AKID");
    assert_eq!(call.request.headers["x-amz-security-token"], "x");
    assert_eq!(call.request.url, "https://monitoring.eu-west-1.amazonaws.com/");
}

#[test]
fn a_token_is_exchanged_for_keys_of_a_role() {
    let source = Source::WebIdentity {
        role: "arn:aws:iam::1:role/r".into(),
        token: "hidden".into(),
        session: "tidegate".into(),
    };
    assert_eq!(format!("{source:?}"), "WebIdentity");
    let inquiry = cloudwatch(source).inquiry().unwrap();
    let first = sent(&inquiry, &[]);
    assert_eq!(first.request.url, "https://sts.eu-west-1.amazonaws.com/");
    assert_eq!(first.request.method, Method::POST);
    assert!(!first.trusted && first.verify_tls);
    assert!(!first.request.headers.contains_key("authorization"));
    let body = String::from_utf8(first.request.body).unwrap();
    assert_eq!(
        body,
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=tidegate&WebIdentityToken=hidden"
    );
    let json = r#"{"AssumeRoleWithWebIdentityResponse":{"AssumeRoleWithWebIdentityResult":{"Credentials":{"AccessKeyId":"ASIA","SecretAccessKey":"s","SessionToken":"t","Expiration":1.7e9}}}}"#;
    let xml = "<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken></Credentials></AssumeRoleWithWebIdentityResponse>";
    for body in [json, xml] {
        let second = sent(&inquiry, &[answered(200, body)]);
        assert_eq!(signed_by(&second), "ASIA", "{body}");
        assert_eq!(second.request.headers["x-amz-security-token"], "t");
    }
}

#[test]
fn a_server_for_containers_gives_keys_out() {
    let address = "http://169.254.170.23/v1/credentials".to_owned();
    let inquiry = cloudwatch(Source::Container { address, authorization: Some("a".into()) })
        .inquiry()
        .unwrap();
    let first = sent(&inquiry, &[]);
    assert_eq!(first.request.url, "http://169.254.170.23/v1/credentials");
    assert_eq!(first.request.headers["authorization"], "a");
    assert!(first.trusted, "it is on the node, where nothing else may be asked");
    let keys = r#"{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t"}"#;
    let second = sent(&inquiry, &[answered(200, keys)]);
    assert_eq!(signed_by(&second), "ASIA");
    assert!(!second.trusted);
}

#[test]
fn an_instance_is_asked_for_a_session_a_role_and_keys() {
    let inquiry = cloudwatch(Source::Instance).inquiry().unwrap();
    let first = sent(&inquiry, &[]);
    assert_eq!(first.request.method, Method::PUT);
    assert_eq!(first.request.url, "http://169.254.169.254/latest/api/token");
    let mut replies = vec![answered(200, "session")];
    let second = sent(&inquiry, &replies);
    assert_eq!(second.request.headers["x-aws-ec2-metadata-token"], "session");
    assert!(second.request.url.path().ends_with("/iam/security-credentials/"));
    replies.push(answered(200, "my-role\n"));
    let third = sent(&inquiry, &replies);
    assert!(third.request.url.path().ends_with("/iam/security-credentials/my-role"));
    replies.push(answered(200, r#"{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t"}"#));
    let fourth = sent(&inquiry, &replies);
    assert_eq!(signed_by(&fourth), "ASIA");

    let odd = [answered(200, "session"), answered(200, "../../user-data")];
    assert_eq!(inquiry.next(&odd), super::super::Step::done(Err(QueryError::Identity)));
}

#[test]
fn without_keys_there_is_no_telling() {
    let failed = super::super::Step::done(Err(QueryError::Identity));
    assert_eq!(cloudwatch(Source::None).inquiry().unwrap().next(&[]), failed);
    let role = Source::WebIdentity { role: "r".into(), token: "t".into(), session: "s".into() };
    let inquiry = cloudwatch(role).inquiry().unwrap();
    let replies = [
        ("not allowed", answered(403, r#"{"Error":{"Code":"AccessDenied"}}"#)),
        ("no keys", answered(200, "{}")),
        ("empty ones", answered(200, r#"{"AccessKeyId":"","SecretAccessKey":""}"#)),
        ("a page", answered(200, "<html></html>")),
    ];
    for (reason, reply) in replies {
        assert_eq!(inquiry.next(&[reply]), failed, "{reason}");
    }
    let lost = super::super::Step::done(Err(QueryError::Unreachable));
    assert_eq!(inquiry.next(&[Reply::Lost]), lost);
    let keys = Keys { id: "hidden".into(), secret: "hidden".into(), session: None };
    assert_eq!(format!("{keys:?} {:?}", Source::Keys(keys.clone())), "*** Keys");
}
