//! Words with a meaning: function names, units, and how a text answer is spelled canonically.

use super::node::Function;

/// A function by its name, in LaTeX or in plain text.
pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" | "tg" => Function::Tan,
        "cot" | "ctg" => Function::Cot,
        "sec" => Function::Sec,
        "csc" | "cosec" => Function::Csc,
        "arcsin" | "asin" => Function::Arcsin,
        "arccos" | "acos" => Function::Arccos,
        "arctan" | "atan" => Function::Arctan,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "ln" => Function::Ln,
        "log" | "lg" => Function::Log,
        "exp" => Function::Exp,
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "ceil" => Function::Ceil,
        "gcd" => Function::Gcd,
        "lcm" => Function::Lcm,
        "max" => Function::Max,
        "min" => Function::Min,
        _ => return None,
    })
}

/// Greek letters and other symbols that plain text spells out.
pub(super) fn spelled_symbol(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "alpha", "beta", "gamma", "delta", "theta", "lambda", "omega", "phi", "rho", "sigma", "tau",
        "epsilon", "mu", "psi",
    ];
    NAMES.contains(&name)
}

/// The canonical name of a unit in text: singular, without its power.
pub(super) fn unit(word: &str) -> Option<&'static str> {
    Some(match word {
        "mm" | "millimeter" | "millimeters" | "millimetre" | "millimetres" => "mm",
        "cm" | "centimeter" | "centimeters" | "centimetre" | "centimetres" => "cm",
        "m" | "meter" | "meters" | "metre" | "metres" => "m",
        "km" | "kilometer" | "kilometers" | "kilometre" | "kilometres" => "km",
        "inch" | "inches" => "inch",
        "ft" | "foot" | "feet" => "foot",
        "yard" | "yards" | "yd" => "yard",
        "mile" | "miles" | "mi" => "mile",
        "mg" | "milligram" | "milligrams" => "mg",
        "g" | "gram" | "grams" => "g",
        "kg" | "kilogram" | "kilograms" => "kg",
        "lb" | "lbs" | "pound" | "pounds" => "pound",
        "oz" | "ounce" | "ounces" => "ounce",
        "s" | "sec" | "second" | "seconds" => "s",
        "min" | "minute" | "minutes" => "minute",
        "h" | "hr" | "hrs" | "hour" | "hours" => "hour",
        "day" | "days" => "day",
        "week" | "weeks" => "week",
        "month" | "months" => "month",
        "yr" | "year" | "years" => "year",
        "cent" | "cents" => "cent",
        "dollar" | "dollars" | "usd" => "dollar",
        "degree" | "degrees" | "deg" => "degree",
        "radian" | "radians" | "rad" => "radian",
        "liter" | "liters" | "litre" | "litres" => "l",
        "ml" | "milliliter" | "milliliters" => "ml",
        "gallon" | "gallons" => "gallon",
        "hz" | "hertz" => "hz",
        "khz" => "khz",
        "mhz" => "mhz",
        "j" | "joule" | "joules" => "j",
        "kj" => "kj",
        "w" | "watt" | "watts" => "w",
        "n" | "newton" | "newtons" => "n",
        "k" | "kelvin" => "k",
        "ev" => "ev",
        "mol" | "mole" | "moles" => "mol",
        "mph" => "mph",
        _ => return None,
    })
}

/// Words that may follow a number and say nothing of its value, beside the units.
fn counted(word: &str) -> bool {
    const WORDS: [&str; 20] = [
        "unit",
        "units",
        "square",
        "cubic",
        "sq",
        "ways",
        "way",
        "people",
        "students",
        "points",
        "solutions",
        "values",
        "integers",
        "numbers",
        "times",
        "per",
        "apples",
        "books",
        "coins",
        "marbles",
    ];
    WORDS.contains(&word)
}

/// Whether a plain word of several letters behind a number is a unit and not a product of variables.
pub(super) fn is_plain_unit(word: &str) -> bool {
    let lower = word.to_lowercase();
    word.len() > 1 && (unit(&lower).is_some() || counted(&lower))
}

/// The spelling by which texts are compared: lower case, words and numbers with one blank between them.
pub(super) fn canonical(text: &str) -> String {
    let mut out = String::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
    out
}
