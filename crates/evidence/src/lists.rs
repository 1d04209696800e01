//! Word lists. Everything language-specific is here, and it is English: other languages are checked for numbers, quotations, identifiers
//! and shared words, but not for negation and opposites.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Stop words. Looked up for every word of every text.
pub(crate) fn is_stop(plain: &str) -> bool {
    static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP.iter().copied().collect());
    KNOWN.contains(plain) || plain.ends_with("n't")
}

const STOP: &[&str] = &[
    "a",
    "about",
    "again",
    "all",
    "also",
    "although",
    "am",
    "among",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "because",
    "been",
    "being",
    "both",
    "but",
    "by",
    "can",
    "cannot",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "done",
    "during",
    "each",
    "either",
    "else",
    "ever",
    "every",
    "for",
    "from",
    "had",
    "has",
    "have",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "him",
    "his",
    "how",
    "however",
    "i",
    "i'm",
    "i've",
    "if",
    "in",
    "into",
    "is",
    "it",
    "it's",
    "its",
    "itself",
    "just",
    "let",
    "many",
    "may",
    "me",
    "might",
    "mine",
    "more",
    "most",
    "much",
    "must",
    "my",
    "neither",
    "never",
    "no",
    "none",
    "nor",
    "not",
    "of",
    "off",
    "on",
    "once",
    "one",
    "only",
    "onto",
    "or",
    "other",
    "others",
    "our",
    "ours",
    "out",
    "over",
    "own",
    "per",
    "rather",
    "same",
    "shall",
    "she",
    "should",
    "since",
    "so",
    "some",
    "such",
    "than",
    "that",
    "that's",
    "the",
    "their",
    "theirs",
    "them",
    "then",
    "there",
    "there's",
    "therefore",
    "these",
    "they",
    "thing",
    "this",
    "those",
    "though",
    "through",
    "thus",
    "to",
    "too",
    "under",
    "until",
    "up",
    "upon",
    "us",
    "very",
    "via",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "yes",
    "yet",
    "you",
    "your",
    "yours",
    "according",
    "around",
    "approximately",
    "roughly",
    "nearly",
    "almost",
    "etc",
    "i.e",
    "e.g",
    "ie",
    "eg",
    "s",
    "t",
    "st",
    "nd",
    "rd",
    "th",
];

/// Common words that may begin a sentence and are not names. Compared by stem.
pub(crate) const COMMON: &str = "
ability above absence academic access account action active activity actual actually add additional additionally address administration adult
advance adverse advice after afterwards age agency agent agreement ahead air algorithm alone along already alternative altogether altitude amid
amount analysis analyst ancient animal annual another answer antibiotic anyone anything apart apparently application approach approval archaeologist area argument
army arrangement article artist aside ask aspect assume astronomer attempt attention author authority available average avoid award away baby back bacteria bad balance bank
base basic basically battery battle bear beat become bee before begin behind being belief below benefit beneath beside besides best better between beyond big bigger
biologist bird birth bit black blood blue board body bone book border born bottom boy brain branch bread break bridge brief bring broad brother bug build building burn business
buy call calf camera campaign capital car card care carry case cash cat cause cell center central centre century certain certainly chair challenge
change chapter charge cheap check chemical chemist chief child children choice choose church citizen city civil claim class clean clear clearly client climate close cloud
coach coal coast code coffee cold collect college colour color combine come command comment commission commit committee common commonly communication community company compare
compared comparison compile complete complex component compound computer concern condition conference configuration connect consequently consider consumer contact contain content
context contrary contrast control conversely cook cooking cool copy cost cotton council count country couple course court cover craft create creation creature credit crew crime crisis critic critical
crop cross crowd cultural culture currency current currently customer cut cycle daily damage data database date daughter day dead deal death debt decade decide decision deep
default defeat defence defense define degree delay deliver demand democracy department depend deposit describe description design despite detail develop developer development
device diet difference different difficult digital direct direction director disease disk distance doctor document dog dose double down dozen draft drink drive driver drop drug
dry due early earth east eastern easy eat economic economist economy edge edit edition education effect effort egg eight eighteen eighty electric electricity element eleven employee
employment empty enable end enemy energy engine engineer enough ensure enter entire entry environment enzyme equal equally error especially essentially establish estimate
even evening event eventually everyone everything evidence exactly example except exception exchange executive exercise exist expect expensive experience experiment expert
explain export extend external extra eye face facility fact factor factory fail failure fair fall false family famous far farm farmer fast father fear feature federal fee feed
feel female few fewer field fifteen fifty fight figure file fill film final finally finance financial find finding fine finish fire firm first fish fit five fix flight
floor flow flower fly follow following follower food foot football force foreign forest forget form formal former formerly forty forward found founder four fourteen fourth free freedom frequent frequently
fresh friend front fruit fuel full fully function fund fundamental further furthermore future game garden gas gather general generally generate generation generator gift girl
give given glacier glass global go goal gold good government governor grandmother grandfather grant graph grass great greater green ground group grow growing growth guarantee guard guess guest guide
gun habit half hand handle happen happy hard hardly head health hear hearing heart heat heavy height hence high higher highest highly hill hire historian historic historical historically history
hit hold hole holiday home honey hope horse hospital host hot hotel hour house household housing huge human hundred hundreds husband idea ideal identify ignore illness image imagine immediate
immediately impact implement import importance important importantly improve include income increase increasing indeed independent index indicate individual industrial industry infant
infection inflation influence information initial initially inner input inside insect inspection install instance instead institution insurance interest interesting interestingly
interior internal international internet interview introduce invest investment investor iron island issue item itself job join joint joblessness journal journalist journey judge judgment jump
junior justice keep kernel key kid kill kind king kitchen know knowledge labor laboratory labour lack lake land language large largely larger largest last late later latest latter laugh launch law lawyer
lay layer lead leader leadership leading leaf league learn least leave left legal length less lesson letter level library licence license lie life light lightning like likely likewise limit
line link lion list listen literature little live liver living load loan local location log long longer look lose loss lot loud love low lower luck lunch machine magazine main mainly
maintain major majority make male mammal man manage management manager mankind manner manufacturer map march mark market marriage marry mass massive master match material math matter maximum maybe mayor meal
mean meaning meanwhile measure meat mechanism media medical medicine medium meet meeting member membership memory men mention mere merely message metal method middle midnight mile military
milk million millions mind mine minimum minister ministry minor minority minute mirror miss mission mistake mix mixture mobile mode model modern moment money month moon moreover morning
mostly mother motion motor mountain mouse mouth move movement movie multiple murder muscle museum music musician myth name narrator nation national native natural naturally nature near nearby
necessary neck need negative neighbour neighborhood neighbourhood neither nerve net network nevertheless new newer newly news newspaper next nice night nine nineteen ninety nobody node noise nonetheless normal
normally north northern northeast northwest nose notable notably note nothing notice notwithstanding novel now nowadays nowhere nuclear number numerous nurse object objective observation observer obtain obvious obviously
occasion occasionally occupation occur ocean odd offer office officer official officially often oil old older oldest on ongoing online open opening operate operation operator opinion opponent
opportunity oppose opposite option oral orange orbit order ordinary organ organic organisation organization origin original originally otherwise outcome output outside overall overdose overnight
owner oxygen pack package page pain paint pair panel paper parent parliament part partial participant particle particular particularly partly partner party pass passage passenger past
path patient pattern pay payment peace peak people percent percentage perfect perform performance perhaps period permanent permission person personal perspective phase phone photo
phrase physical physician physicist pick picture piece pilot place plain plan plane planet plant plastic plate play player please plenty plus poem poet point police policy
political politician politics pollution poor popular population port portion position positive possible possibly post potential potentially pound poverty power powerful practical practically practice
precisely predict prefer presence present presently presidency president press pressure presumably pretty prevent previous previously price primarily primary prime prince princess principal
principle print prior prison private probably problem procedure proceed process produce producer product production profession professional professor profile profit program programme
progress project prominent promise proof proper properly property proposal propose protect protein protest prove provide provided province public publication publicly publish publisher pull
purchase pure purpose push put quality quantity quarter queen query question quick quickly quiet quite race radio rail rain raise random range rapid rapidly rare rarely rate
raw reach read reader ready real reality really rear reason reasonable rebuild recall receive recent recently recipe recognise recognize record recover recovery red reduce reduction refer reference
reform refuse regard regarding regardless region regional regular regularly regulation regulator reject relate related relation relationship relative relatively release relevant reliable religion religious
rely remain remaining remarkable remarkably remember remote remove repair repeat repeatedly replace reply report reportedly reporter represent republic request require required
requirement research researcher reserve resident resistance resolution resource respect respectively response rest restart restaurant result retail retire return revenue reverse review revolution
rice rich ride right ring rise risk river road rock role roof room root rose rough round route royal rule run runner rural safe safety sailor salary sale salt sample sand satellite save say scale scene schedule
scheme scholar school science scientific scientist score screen script sea search season seat second secondary secondly secret secretary section sector security see seed seek seem seldom select sell senate senator
send senior sense sensor sentence separate separately sequence series serious serve server service session set setting settlement seven seventeen seventy several severe shadow shake shape share sharp sheep
sheet shell ship shop short shortly shot show side sight sign signal significant significantly silent silver similar similarly simple simply simultaneously sing singer single sister sit
site situation six sixteen sixth sixty size skill skin sky sleep slight slightly slow slowly small smaller smart smoke smooth snake snow social society soft software soil soldier sole solution solve
somebody someone something sometimes somewhat somewhere son song soon sort soul sound source south southern southeast southwest space speaker special species specific specifically spectator speech
speed spell spend spending spirit split spokesman spokesperson spokeswoman sport spot spread spring staff stage standard star start state statement station statistic statistics status stay steady steel step still stock stone stop
storage store storm story straight strange strategy stream street strength stress strict strike string strong strongly structure struggle student study stuff style subject submit subsequent
subsequently substance substantial success successful successfully sudden suddenly suffer sufficient sugar suggest suggestion suit suitable sum summary summer sun supply support suppose supposedly sure surely
surface surfer surgery surprise surprising surprisingly survey survivor suspect sweet swim symbol symptom system table take talk tall target task tax tea teach teacher team technical technically technique technology telescope
television tell temperature temple temporary ten tend tension tenth term terrible test text thank thanks theme theory thereafter thereby thin third thirdly thirteen thirty thorough thousand thousands thread threat
three throat throughout throw thunder tide tidal tie tight time timeout tin tiny tip tired title today together tomorrow tone tonight tool tooth top topic total totally touch tough tour tourism tourist toward towards tower town
toy track trade tradition traditional traditionally traffic train training transaction transfer transform transition translate translation transport travel traveller treasure treat treatment treaty tree trend trial tribe trick trip
troop trouble truck true truly trust truth try tube turn twelve twentieth twenty twice twin two type typical typically ultimate ultimately unable uncle underneath understand unfortunately unhappy uniform union
unique unit united universal universe university unknown unless unlike unlikely unusual unusually update upper urban urge usage use used useful user usual usually vacuum valley valuable value van variable variation
variety various vary vast vegetable vehicle verse version vessel victim victory video view viewer village violence virtual virtually virus visible vision visit visitor visual vital voice volume volunteer vote
voter wage wait walk wall want war warm warmer warn warning wash waste watch water wave way weak wealth weapon wear weather web week weekend weekly weigh weight welcome welfare well west western wet whale whaling whatever
wheat wheel whenever whereas wherever white whoever whole wide widely widespread wife wild win wind window wine wing winner winter wire wise wish withdraw witness woman women wonder wood word work worker workforce working
workshop world worldwide worry worse worst worth write writer written wrong year yearly yellow yesterday yield young younger youth zero zone
taking setting growing using making based having doing given known seen caused held made led built born written founded ran went got took gave became began
";

const SUFFIXES: &[&str] = &[
    "tion", "tions", "ment", "ments", "ness", "ity", "ities", "ing", "ings", "ly", "ists", "ism", "ous", "able", "ible", "ful", "less", "ence",
    "ance", "ology", "ized", "ised", "icians",
];

/// Whether a word that is capitalized only at the start of a sentence is an ordinary one.
pub(crate) fn is_common(plain: &str, stem: &str, common: &HashSet<String>) -> bool {
    common.contains(stem) || common.contains(plain) || (plain.len() > 6 && SUFFIXES.iter().any(|suffix| plain.ends_with(suffix)))
}

/// Words that accompany a name without changing it: `President Lincoln`, `Dr. Watson`.
pub(crate) const TITLES: &[&str] = &[
    "mr",
    "mrs",
    "ms",
    "miss",
    "dr",
    "sir",
    "dame",
    "lord",
    "lady",
    "prof",
    "professor",
    "president",
    "king",
    "queen",
    "prince",
    "princess",
    "emperor",
    "pope",
    "saint",
    "captain",
    "general",
    "colonel",
    "senator",
    "judge",
    "justice",
    "minister",
    "chancellor",
    "mayor",
    "governor",
    "ceo",
    "chairman",
    "economist",
    "engineer",
    "inc",
    "ltd",
    "llc",
    "corp",
    "co",
    "gmbh",
    "jr",
    "sr",
    "phd",
];

/// Small words inside a name: `Ludwig van Beethoven`, `Battle of Hastings`.
pub(crate) const CONNECTORS: &[&str] =
    &["of", "de", "van", "von", "der", "den", "la", "le", "du", "di", "da", "del", "bin", "ibn", "al", "the", "and", "for"];

/// Places and their adjectives, where no rule applies.
#[rustfmt::skip]
const DEMONYMS: &[(&str, &str)] = &[
    ("france", "french"), ("britain", "british"), ("spain", "spanish"), ("germany", "german"), ("italy", "italian"), ("china", "chinese"),
    ("japan", "japanese"), ("russia", "russian"), ("england", "english"), ("ireland", "irish"), ("scotland", "scottish"), ("wales", "welsh"),
    ("netherlands", "dutch"), ("holland", "dutch"), ("poland", "polish"), ("sweden", "swedish"), ("denmark", "danish"), ("finland", "finnish"),
    ("norway", "norwegian"), ("switzerland", "swiss"), ("austria", "austrian"), ("belgium", "belgian"), ("portugal", "portuguese"),
    ("greece", "greek"), ("turkey", "turkish"), ("egypt", "egyptian"), ("israel", "israeli"), ("iraq", "iraqi"), ("iran", "iranian"),
    ("kenya", "kenyan"), ("ethiopia", "ethiopian"), ("canada", "canadian"), ("mexico", "mexican"), ("brazil", "brazilian"), ("america", "american"),
    ("africa", "african"), ("europe", "european"), ("asia", "asian"), ("india", "indian"), ("hungary", "hungarian"), ("ukraine", "ukrainian"),
    ("iceland", "icelandic"), ("iceland", "icelander"), ("iceland", "icelanders"), ("vietnam", "vietnamese"), ("peru", "peruvian"), ("cuba", "cuban"),
    ("rome", "roman"), ("athens", "athenian"), ("vienna", "viennese"), ("us", "american"), ("us", "usa"), ("us", "america"), ("uk", "britain"),
    ("uk", "british"), ("eu", "european"), ("soviet", "ussr"), ("argentina", "argentine"), ("argentina", "argentinian"), ("chile", "chilean"),
    ("pakistan", "pakistani"), ("bangladesh", "bangladeshi"), ("nepal", "nepalese"), ("thailand", "thai"), ("korea", "korean"),
    ("australia", "australian"),
];

pub(crate) fn demonyms(plain: &str) -> impl Iterator<Item = &'static str> + '_ {
    DEMONYMS.iter().filter_map(move |(place, of)| if *place == plain { Some(*of) } else { (*of == plain).then_some(*place) })
}

#[rustfmt::skip]
const IRREGULAR: &[(&str, &str)] = &[
    ("rose", "rise"), ("risen", "rise"), ("fell", "fall"), ("fallen", "fall"), ("grew", "grow"), ("grown", "grow"), ("shrank", "shrink"),
    ("shrunk", "shrink"), ("won", "win"), ("lost", "lose"), ("began", "begin"), ("begun", "begin"), ("sold", "sell"), ("bought", "buy"),
    ("went", "go"), ("gone", "go"), ("gave", "give"), ("given", "give"), ("took", "take"), ("taken", "take"), ("made", "make"), ("wrote", "write"),
    ("written", "write"), ("broke", "break"), ("broken", "break"), ("built", "build"), ("held", "hold"), ("kept", "keep"), ("led", "lead"),
    ("left", "leave"), ("met", "meet"), ("paid", "pay"), ("said", "say"), ("saw", "see"), ("seen", "see"), ("sent", "send"), ("spoke", "speak"),
    ("spoken", "speak"), ("spent", "spend"), ("stood", "stand"), ("taught", "teach"), ("thought", "think"), ("told", "tell"),
    ("understood", "understand"), ("became", "become"), ("came", "come"), ("chose", "choose"), ("chosen", "choose"), ("drank", "drink"),
    ("drunk", "drink"), ("drove", "drive"), ("driven", "drive"), ("ate", "eat"), ("eaten", "eat"), ("flew", "fly"), ("flown", "fly"),
    ("found", "find"), ("forgot", "forget"), ("froze", "freeze"), ("knew", "know"), ("known", "know"), ("rode", "ride"), ("ridden", "ride"),
    ("ran", "run"), ("sang", "sing"), ("sung", "sing"), ("sank", "sink"), ("sunk", "sink"), ("shown", "show"), ("swam", "swim"), ("threw", "throw"),
    ("thrown", "throw"), ("wore", "wear"), ("worn", "wear"), ("brought", "bring"), ("caught", "catch"), ("fought", "fight"), ("sought", "seek"),
    ("beaten", "beat"), ("bore", "bear"), ("men", "man"), ("women", "woman"), ("children", "child"), ("feet", "foot"), ("mice", "mouse"),
    ("people", "person"), ("persons", "person"), ("better", "good"), ("best", "good"), ("wife's", "wife"), ("metre", "meter"), ("metres", "meter"),
    ("litres", "liter"), ("litre", "liter"), ("died", "die"), ("dies", "die"), ("dying", "die"), ("lying", "lie"), ("ran", "run"), ("laid", "lay"),
    ("meant", "mean"), ("sped", "speed"), ("slept", "sleep"), ("struck", "strike"), ("swept", "sweep"), ("tore", "tear"), ("torn", "tear"),
    ("woke", "wake"), ("colour", "color"), ("colours", "color"), ("centre", "center"), ("centres", "center"), ("labour", "labor"),
    ("analyse", "analyze"), ("analysed", "analyze"),
];

pub(crate) fn irregular(plain: &str) -> Option<&'static str> {
    static KNOWN: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| IRREGULAR.iter().copied().collect());
    KNOWN.get(plain).copied()
}

/// Stems of words about the text itself.
pub(crate) const META: &[&str] = &[
    "say", "state", "write", "note", "mention", "describ", "report", "explain", "passag", "text", "sourc", "articl", "document", "speak", "tell",
    "word", "ask", "add", "call", "accord", "quot", "author", "speech", "novel", "read", "includ", "current", "get", "take", "place", "make",
    "occur", "happen", "becom", "go", "come", "use",
];

/// Beginnings of sentences that claim nothing, if they contain no fact.
pub(crate) const OPENINGS: &[&str] = &[
    "here is",
    "here are",
    "here's",
    "i found",
    "i could not",
    "i couldn't",
    "i cannot",
    "i can't",
    "i can",
    "i was unable",
    "i am unable",
    "i'm unable",
    "i do not",
    "i don't",
    "i hope",
    "i am sorry",
    "i'm sorry",
    "i will",
    "i'll",
    "let me",
    "let us",
    "sure",
    "of course",
    "certainly",
    "below is",
    "below are",
    "please",
    "thank you",
    "thanks",
    "sorry",
    "unfortunately i",
    "unfortunately the sources",
    "feel free",
    "if you",
    "would you",
    "do you",
    "hope this",
    "in summary",
    "see also",
    "see below",
    "to summarize",
    "to summarise",
    "this answer",
    "based on",
    "note that this answer",
];

pub(crate) const NEGATORS: &[&str] = &[
    "not", "no", "never", "none", "neither", "nor", "without", "cannot", "nobody", "nothing", "nowhere", "hardly", "barely", "scarcely", "rarely",
    "seldom", "lack", "lacks", "lacked", "lacking", "unable",
];

/// Pairs that reverse a statement. Compared by stem.
#[rustfmt::skip]
pub(crate) const OPPOSITES: &[(&str, &str)] = &[
    ("increase", "decrease"), ("increase", "reduce"), ("increase", "fall"), ("increase", "drop"), ("increase", "decline"), ("rise", "fall"),
    ("rise", "decline"), ("rise", "drop"), ("rise", "decrease"), ("raise", "lower"), ("raise", "reduce"), ("grow", "shrink"), ("grow", "fall"),
    ("grow", "decline"), ("expand", "shrink"), ("more", "less"), ("more", "fewer"), ("most", "least"), ("higher", "lower"), ("highest", "lowest"),
    ("high", "low"), ("large", "small"), ("larger", "smaller"), ("largest", "smallest"), ("biggest", "smallest"), ("bigger", "smaller"),
    ("big", "small"), ("long", "short"), ("longer", "shorter"), ("longest", "shortest"), ("old", "new"), ("old", "young"), ("older", "younger"),
    ("oldest", "youngest"), ("oldest", "newest"), ("fast", "slow"), ("faster", "slower"), ("fastest", "slowest"), ("best", "worst"),
    ("better", "worse"), ("good", "bad"), ("strong", "weak"), ("stronger", "weaker"), ("heavy", "light"), ("heaviest", "lightest"), ("hot", "cold"),
    ("warm", "cold"), ("warmer", "colder"), ("before", "after"), ("earlier", "later"), ("early", "late"), ("earliest", "latest"), ("first", "last"),
    ("above", "below"), ("inside", "outside"), ("north", "south"), ("northern", "southern"), ("east", "west"), ("eastern", "western"),
    ("top", "bottom"), ("win", "lose"), ("beat", "lose"), ("victory", "defeat"), ("gain", "lose"), ("gain", "loss"), ("profit", "loss"),
    ("accept", "reject"), ("accept", "refuse"), ("approve", "reject"), ("allow", "forbid"), ("allow", "prohibit"), ("allow", "ban"),
    ("allow", "prevent"), ("permit", "forbid"), ("succeed", "fail"), ("success", "failure"), ("always", "never"), ("maximum", "minimum"),
    ("majority", "minority"), ("buy", "sell"), ("import", "export"), ("positive", "negative"), ("enable", "disable"), ("add", "remove"),
    ("open", "close"), ("start", "end"), ("begin", "end"), ("start", "stop"), ("born", "die"), ("common", "rare"), ("rich", "poor"),
    ("true", "false"), ("support", "oppose"), ("agree", "disagree"), ("war", "peace"), ("strengthen", "weaken"), ("improve", "worsen"),
    ("speed", "slow"), ("accelerate", "slow"), ("safe", "dangerous"), ("public", "private"), ("wet", "dry"), ("full", "empty"), ("hard", "soft"),
    ("deep", "shallow"), ("wide", "narrow"), ("thick", "thin"), ("near", "far"), ("day", "night"), ("male", "female"), ("parent", "child"),
    ("father", "mother"), ("husband", "wife"), ("brother", "sister"), ("multiply", "divide"), ("arrive", "depart"), ("enter", "leave"),
    ("push", "pull"), ("include", "exclude"), ("attack", "defend"), ("create", "destroy"), ("encrypt", "decrypt"), ("upload", "download"),
];

/// The words of `OPPOSITES` that are compared as written, since a stem (or a stop word) would be ambiguous.
pub(crate) const OPPOSITE_PREFIXES: &[&str] = &["un", "in", "im", "il", "ir", "dis", "non"];

pub(crate) fn unaccented(c: char) -> char {
    match c {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'ĉ' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è' | 'é' | 'ê' | 'ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ğ' | 'ģ' => 'g',
        'ì' | 'í' | 'î' | 'ï' | 'ī' | 'į' | 'ı' => 'i',
        'ł' | 'ľ' | 'ĺ' => 'l',
        'ñ' | 'ń' | 'ň' | 'ņ' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ř' | 'ŕ' => 'r',
        'ś' | 'š' | 'ş' | 'ș' => 's',
        'ť' | 'ţ' | 'ț' => 't',
        'ù' | 'ú' | 'û' | 'ü' | 'ū' | 'ů' | 'ű' | 'ų' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        c => c,
    }
}
