//! Units: their names in text, their dimensions and exact factors; currencies, percent, and nouns that are counted.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow};

use super::words::is_among;

/// Exponents of the base units: metre, kilogram, second, dollar cent, ampere, kelvin, mole, degree of arc, bit, and of
/// currencies and counts without exact rates, which are units of their own.
type Dimension = [i8; 9];

const METRE: usize = 0;
const KILOGRAM: usize = 1;
const SECOND: usize = 2;
const CENT: usize = 3;
const AMPERE: usize = 4;
const KELVIN: usize = 5;
const MOLE: usize = 6;
const DEGREE: usize = 7;
const BIT: usize = 8;

/// Names, the canonical one first; exponents of base units; the factor to base units as a fraction. Without exponents the unit has no
/// factor to any other.
type Entry = (&'static str, &'static [(usize, i8)], (u64, u64));

/// Lengths and masses of the international yard and pound, and the US gallon. Months and years are not converted to days.
const UNITS: &[Entry] = &[
    ("nm nanometer nanometers nanometre nanometres", &[(METRE, 1)], (1, 1_000_000_000)),
    ("um micron microns micrometer micrometers μm µm", &[(METRE, 1)], (1, 1_000_000)),
    ("mm millimeter millimeters millimetre millimetres 毫米 мм", &[(METRE, 1)], (1, 1000)),
    (
        "cm centimeter centimeters centimetre centimetres centimètres centimètre centímetros centímetro zentimeter 厘米 см сантиметров センチメートル सेमी سم",
        &[(METRE, 1)],
        (1, 100),
    ),
    ("dm decimeter decimeters decimetre decimetres 分米 дм", &[(METRE, 1)], (1, 10)),
    (
        "m meter meters metre metres mètres mètre metros metro 米 м метров метра メートル मीटर متر",
        &[(METRE, 1)],
        (1, 1),
    ),
    (
        "km kilometer kilometers kilometre kilometres kilomètres kilómetros quilômetros 千米 公里 км километров キロメートル किमी كم",
        &[(METRE, 1)],
        (1000, 1),
    ),
    ("inch inches in", &[(METRE, 1)], (254, 10_000)),
    ("foot feet ft", &[(METRE, 1)], (3048, 10_000)),
    ("yard yards yd", &[(METRE, 1)], (9144, 10_000)),
    ("mile miles mi", &[(METRE, 1)], (1_609_344, 1000)),
    ("ha hectare hectares", &[(METRE, 2)], (10_000, 1)),
    ("l liter liters litre litres litros litros 升 л литров", &[(METRE, 3)], (1, 1000)),
    ("ml milliliter milliliters millilitre millilitres 毫升 мл", &[(METRE, 3)], (1, 1_000_000)),
    ("gallon gallons gal", &[(METRE, 3)], (3_785_411_784, 1_000_000_000_000)),
    ("quart quarts", &[(METRE, 3)], (946_352_946, 1_000_000_000_000)),
    ("mg milligram milligrams 毫克 мг", &[(KILOGRAM, 1)], (1, 1_000_000)),
    ("g gram grams gramme grammes gramos gramas gramm 克 г граммов", &[(KILOGRAM, 1)], (1, 1000)),
    ("kg kilogram kilograms kilogramme kilogrammes kilogramos 千克 公斤 кг", &[(KILOGRAM, 1)], (1, 1)),
    ("ton tons tonne tonnes 吨", &[(KILOGRAM, 1)], (1000, 1)),
    ("pound lb lbs pounds", &[(KILOGRAM, 1)], (45_359_237, 100_000_000)),
    ("ounce oz ounces", &[(KILOGRAM, 1)], (45_359_237, 1_600_000_000)),
    ("ms millisecond milliseconds", &[(SECOND, 1)], (1, 1000)),
    ("s sec second seconds secondes segundos sekunden 秒 секунд", &[(SECOND, 1)], (1, 1)),
    ("minute min mins minutes minutos minuten 分钟 分 мин минут", &[(SECOND, 1)], (60, 1)),
    ("hour h hr hrs hours heures horas stunden 小时 ч час часа часов 時間", &[(SECOND, 1)], (3600, 1)),
    ("day days jours días dias tage 天 日 дней дня", &[(SECOND, 1)], (86_400, 1)),
    ("week weeks semaines semanas wochen 周 недель", &[(SECOND, 1)], (604_800, 1)),
    ("mph", &[(METRE, 1), (SECOND, -1)], (1_609_344, 3_600_000)),
    ("kmh kph", &[(METRE, 1), (SECOND, -1)], (1000, 3600)),
    ("cent cents ¢", &[(CENT, 1)], (1, 1)),
    ("dollar dollars usd 美元 долларов", &[(CENT, 1)], (100, 1)),
    ("degree degrees deg degrés degrés grados graus grad 度 градусов градуса", &[(DEGREE, 1)], (1, 1)),
    ("hz hertz", &[(SECOND, -1)], (1, 1)),
    ("khz", &[(SECOND, -1)], (1000, 1)),
    ("mhz", &[(SECOND, -1)], (1_000_000, 1)),
    ("ghz", &[(SECOND, -1)], (1_000_000_000, 1)),
    ("n newton newtons", &[(KILOGRAM, 1), (METRE, 1), (SECOND, -2)], (1, 1)),
    ("kn", &[(KILOGRAM, 1), (METRE, 1), (SECOND, -2)], (1000, 1)),
    ("j joule joules", &[(KILOGRAM, 1), (METRE, 2), (SECOND, -2)], (1, 1)),
    ("kj", &[(KILOGRAM, 1), (METRE, 2), (SECOND, -2)], (1000, 1)),
    ("w watt watts", &[(KILOGRAM, 1), (METRE, 2), (SECOND, -3)], (1, 1)),
    ("kw kilowatt kilowatts", &[(KILOGRAM, 1), (METRE, 2), (SECOND, -3)], (1000, 1)),
    ("pa pascal pascals", &[(KILOGRAM, 1), (METRE, -1), (SECOND, -2)], (1, 1)),
    ("kpa", &[(KILOGRAM, 1), (METRE, -1), (SECOND, -2)], (1000, 1)),
    ("v volt volts", &[(KILOGRAM, 1), (METRE, 2), (SECOND, -3), (AMPERE, -1)], (1, 1)),
    ("a ampere amperes amp amps", &[(AMPERE, 1)], (1, 1)),
    ("ma", &[(AMPERE, 1)], (1, 1000)),
    ("ohm ohms Ω omega", &[(KILOGRAM, 1), (METRE, 2), (SECOND, -3), (AMPERE, -2)], (1, 1)),
    ("k kelvin", &[(KELVIN, 1)], (1, 1)),
    ("mol mole moles", &[(MOLE, 1)], (1, 1)),
    ("byte bytes", &[(BIT, 1)], (8, 1)),
    ("bit bits", &[(BIT, 1)], (1, 1)),
    ("month months mois meses monate 个月 месяцев", &[], (1, 1)),
    ("year yr years ans années años anos jahre 年 岁 лет года", &[], (1, 1)),
    ("radian radians rad", &[], (1, 1)),
    ("ev electronvolt electronvolts", &[], (1, 1)),
    ("kev", &[], (1, 1)),
    ("mev", &[], (1, 1)),
    ("euro euros eur евро", &[], (1, 1)),
    ("gbp", &[], (1, 1)),
    ("rupee rupees rs rs. inr रुपये", &[], (1, 1)),
    ("yen jpy 円", &[], (1, 1)),
    ("yuan rmb cny 元", &[], (1, 1)),
    ("ruble rubles рублей рубля руб", &[], (1, 1)),
    ("acre acres", &[], (1, 1)),
    ("db", &[], (1, 1)),
    ("am", &[], (1, 1)),
    ("pm", &[], (1, 1)),
    ("ph", &[], (1, 1)),
];

fn entry(word: &str) -> Option<&'static Entry> {
    UNITS.iter().find(|(names, ..)| names.split(' ').any(|name| name == word))
}

/// The canonical name of a unit in text: singular, without its power. `word` is in lower case.
pub(super) fn canonical(word: &str) -> Option<&'static str> {
    entry(word).and_then(|(names, ..)| names.split(' ').next())
}

/// The factor from a unit to base units, and their exponents.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) dimension: Dimension,
    pub(super) factor: BigRational,
}

/// Reads canonical units with powers: `cm^2`, `km/hour`, `kg m/s^2`; `None` if one of them has no factor.
pub(super) fn measure(units: &str) -> Option<Measure> {
    let mut total = Measure { dimension: [0; 9], factor: BigRational::one() };
    let mut divides = false;
    let mut word = String::new();
    for c in units.chars().chain(std::iter::once(' ')) {
        if c != ' ' && c != '/' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            let (name, power) = word.split_once('^').unwrap_or((&word, "1"));
            let power: i8 = power.parse().ok().filter(|p: &i8| p.abs() <= 6)?;
            let (_, dimension, (top, bottom)) =
                entry(name).filter(|(_, dimension, _)| !dimension.is_empty())?;
            let power = if divides { -power } else { power };
            for (base, exponent) in *dimension {
                total.dimension[*base] = total.dimension[*base].checked_add(exponent.checked_mul(power)?)?;
            }
            let factor = BigRational::new(BigInt::from(*top), BigInt::from(*bottom));
            total.factor *= Pow::pow(factor, i32::from(power));
            word.clear();
        }
        divides = c == '/';
    }
    Some(total)
}

/// The unit that the sign of a currency is.
pub(super) fn currency_sign(c: char) -> Option<&'static str> {
    Some(match c {
        '€' => "euro",
        '£' => "gbp",
        '¥' | '￥' => "yen",
        '₹' => "rupee",
        '₽' => "ruble",
        '¢' => "cent",
        _ => return None,
    })
}

/// The unit that the word for a currency before an amount is.
pub(super) fn currency_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "USD" | "US" => "dollar",
        "EUR" => "euro",
        "GBP" => "gbp",
        "INR" | "Rs" => "rupee",
        "JPY" => "yen",
        "CNY" | "RMB" => "yuan",
        _ => return None,
    })
}

pub(super) fn is_percent(word: &str) -> bool {
    const WORDS: &str = "percent|per cent|pct|prozent|pour cent|por ciento|por cento|процент|процента|процентов|\
        パーセント|प्रतिशत";
    is_among(word, WORDS) || word.eq_ignore_ascii_case("percent")
}

/// Words that may follow a number and say nothing of its value, beside the units.
const COUNTED: &str = "unit|units|square|cubic|sq|ways|way|people|students|points|solutions|values|integers|\
    numbers|times|per|apples|books|coins|marbles|roots|pairs|triangles|digits|squares|cubed";

/// True if a plain word of several letters behind a number is a unit and not a product of variables.
pub(super) fn is_plain_unit(word: &str) -> bool {
    let lower = word.to_lowercase();
    word.len() > 1
        && !matches!(lower.as_str(), "in" | "ma" | "ha")
        && (entry(&lower).is_some() || is_among(&lower, COUNTED))
}

/// True if letters behind a number read as a noun and not as variables: a word of some length with vowels, not in alphabetical order.
pub(super) fn may_be_counted(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let vowels = lower.bytes().filter(|b| b"aeiouy".contains(b)).count();
    word.len() >= 4
        && vowels > 0
        && !lower.as_bytes().is_sorted()
        && !matches!(lower.as_str(), "sqrt" | "frac" | "infty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn currencies_have_signs_and_codes() {
        let signs = ['€', '£', '¥', '₹', '₽', '¢'].map(|c| currency_sign(c).unwrap_or(""));
        assert_eq!(signs, ["euro", "gbp", "yen", "rupee", "ruble", "cent"]);
        let codes =
            ["USD", "EUR", "GBP", "INR", "JPY", "CNY", "RMB"].map(|word| currency_word(word).unwrap_or(""));
        assert_eq!(codes, ["dollar", "euro", "gbp", "rupee", "yen", "yuan", "yuan"]);
        assert_eq!((currency_sign('x'), currency_word("XYZ")), (None, None));
    }

    #[test]
    fn percent_is_said_in_many_languages() {
        assert!(is_percent("パーセント") && is_percent("Percent") && !is_percent("per"));
    }

    #[test]
    fn a_counted_noun_has_four_letters_a_vowel_and_no_alphabetical_order() {
        assert!(may_be_counted("pommes") && may_be_counted("boxes"));
        for product in ["Les", "zxwv", "abcde", "sqrt", "x"] {
            assert!(!may_be_counted(product), "{product}");
        }
    }
}
