//! Verdicts on pairs, with the rules that they rest on.

use super::*;
use crate::answer::Answer;
use crate::rules::Rules;
use crate::tests::{budget, read};

fn check(rules: Rules, pairs: &[(&str, &str, &str)]) {
    for (own, other, wanted) in pairs {
        let found = Answer::read_by(own, rules).compare(&Answer::read_by(other, rules));
        assert_eq!(found.to_string(), *wanted, "{own} and {other}");
    }
}

fn strict(pairs: &[(&str, &str, &str)]) {
    check(Rules::STRICT, pairs);
}

fn lenient(pairs: &[(&str, &str, &str)]) {
    check(Rules::LENIENT, pairs);
}

/// The comparison alone; an answer as a whole may set its open verdicts aside.
fn decided(own: &str, other: &str) -> Result<bool, Reason> {
    same(&read(own), &read(other), &mut budget())
}

#[test]
fn matrices_points_and_words() {
    strict(&[
        (r"\begin{pmatrix}5\end{pmatrix}", "5", "equal"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", "1", "different"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "1", "different"),
        ("A(0.5,2)", "A(1/2,2)", "equal"),
        ("A(1,2)", "B(1,2)", "different"),
        ("A(1,2)", "A(1,3)", "different"),
        // A capital before brackets may be a number of combinations, too.
        ("C(5,2)", r"2\cdot 5", "equal"),
        ("A(1,2)", "3x", "unreadable: a structure inside an expression"),
        (r"\ldots", "5", "undecided: dots that stand for what is not written"),
        (r"\infty", r"\text{infinity}", "different"),
        (r"\frac10", r"\text{five}", "different"),
    ]);
    lenient(&[(r"\infty", r"\text{infinity}", "equal by number_words")]);
}

#[test]
fn units_and_marks_behind_a_value() {
    strict(&[
        (r"5\text{ cm}", r"5.0\text{ cm}", "equal"),
        (r"5\text{ cm}", r"x=5\text{ cm}", "equal by assignment"),
        (r"25\%", r"25.0\%", "equal"),
    ]);
    check(Rules::NONE, &[(r"5\text{ cm}", r"5.0\text{ cm}", "equal"), (r"25\%", r"25.0\%", "equal")]);
    lenient(&[
        (r"52_8\text{ apples}", r"52\text{ apples}", "equal by unit_dropped, base_dropped"),
        (r"52_8\text{ apples}", "52", "equal by unit_dropped, base_dropped"),
        ("52_8", r"52\text{ apples}", "equal by unit_dropped, base_dropped"),
        (r"52\text{ apples}", "52_8", "different"),
        ("3 hours 20 minutes", "200 minutes", "equal by unit_converted"),
        ("1 and 234", "1,234 pommes", "equal by unit_dropped"),
        ("1 and 234 and 2 and 5", "1,234 pommes, 2,5", "equal by unit_dropped"),
        (r"5\text{ m}", "5m", "equal"),
        (r"5\text{ m}^2", "5m^2", "equal"),
        (r"5\text{ m}", "x m", "different"),
        (r"5\text{ zz}", "5zz", "different"),
        (r"5\text{ m/s}", r"5\frac{m}{s}", "equal"),
        (r"5\text{ m s}", "5m/s", "different"),
        (r"5\text{ m kg/s}", r"5\frac{m\text{ kg}}{s}", "equal"),
        (r"5\text{ m g/s}", r"5\frac{m}{s/g}", "equal by unit_converted"),
        (r"5\text{ m/s/g}", r"5\frac{m}{s/g}", "different"),
    ]);
}

#[test]
fn sets_of_reals_and_of_other_things() {
    strict(&[
        (r"A\cup B", r"B\cup A", "equal"),
        (r"A\setminus\{0.5\}", r"A\setminus\{1/2\}", "equal"),
        (r"A\setminus B", r"A\setminus C", "different"),
        ("2x<x+4", "x<4", "equal by interval"),
        ("1<x>2", r"(2,\infty)", "different"),
        ("1<x>2", r"(1,\infty)", "different"),
        (r"0\le f(x)\le 1", "[0,1]", "equal by interval"),
        (r"0<\frac{x}{y}<1", "(0,1)", "different"),
        ("0<xyz<1", "(0,1)", "different"),
        (r"\mathbb{R}\setminus(0,1)", r"(-\infty,0]\cup[1,\infty)", "equal by interval"),
        (r"\mathbb{R}\setminus(-\infty,0)", r"[0,\infty)", "equal by interval"),
        (r"\mathbb{R}\setminus(1,1)", r"\mathbb{R}", "equal by interval"),
        (r"\mathbb{R}\setminus([0,1)\cup[1,2])", r"(-\infty,0)\cup(2,\infty)", "equal by interval"),
        (r"\mathbb{R}\setminus\{1,1\}", r"(-\infty,1)\cup(1,\infty)", "equal by interval"),
    ]);
}

#[test]
fn values() {
    strict(&[
        (r"\pm\infty", r"\infty,-\infty", "equal by plus_minus"),
        (r"\pm\infty", r"\infty", "different"),
        ("-3.14159", r"-\pi", "equal by six_digits"),
        (r"-3.14159\times 10^{0}", r"-\pi", "equal by six_digits"),
        ("-(3.14159)", r"-\pi", "equal by six_digits"),
        (r"3.14159\times 10^{-2}", r"\frac{\pi}{100}", "equal by six_digits"),
        (r"3.14159\times 10^-2", r"\frac{\pi}{100}", "equal by six_digits"),
        (r"3.14259\times 10^-2", r"\frac{\pi}{100}", "different"),
        (r"\arccos\arccos x", r"\arccos(\arccos(x+0))", "equal"),
        (r"\sqrt2+\sqrt{10^{200}+1}-\sqrt{1+10^{200}}", r"\sqrt2", "equal"),
        (
            r"\sqrt2+\sqrt{10^{320}+1}-\sqrt{1+10^{320}}",
            r"\sqrt2",
            "too large: the digits lost to cancellation",
        ),
        (r"(-1)^{\sqrt{n^2}} n!", "(-1)^n n!", "equal"),
        (r"(-2)^{-\sqrt{n^2}} n!", r"\frac{n!}{(-2)^n}", "equal"),
    ]);
}

#[test]
fn what_a_relation_says_the_answer_is() {
    lenient(&[
        ("x+y=5", "5", "equal by named_value"),
        ("M4y-4=55", "1/0", "different"),
        ("xx=33", "33", "equal by named_value"),
        (r"xy\sqrt z=5", "5", "equal by named_value"),
        (r"x\sqrt x=5", "5", "different"),
        ("2x=5", "5", "different"),
        (r"\frac{x}{y}=5", "5", "equal by named_value"),
        (r"\frac{x}{y}=z", "z", "different"),
        (r"\frac{dy}{dx}=2x", "2x", "equal by named_value"),
        ("xy=z", "z", "equal by named_value"),
        ("x+y=z", "z", "different"),
        ("S=5", "S_{ABC}=5", "equal by assignment, named_value"),
        ("y=2x", "f(x)=2x", "equal by assignment, named_value"),
        ("f(x)=2x", "y=2x", "equal by assignment, named_value"),
        ("f(x)=2x", "g(x)=2x", "different"),
        ("f(x)=2", "y=2", "different"),
        (r"\sqrt2\approx 1.41", r"x=\sqrt2\approx 1.414", "equal by assignment"),
        (r"x=\sqrt2\approx 1.414", "x=1.414", "equal by assignment, named_value, approximation"),
        ("x=1.414", r"x=\sqrt2\approx 1.414", "equal by assignment, named_value, approximation"),
        (r"x=\sqrt2\approx 1.414", r"y=\sqrt2\approx 1.414", "different"),
    ]);
    strict(&[
        ("2+3=5", "4+1=5", "equal by assignment"),
        ("x=5", "2+3=5", "equal by assignment"),
        ("y=2x", "2+3=5", "different"),
        ("x=y", "2+3=5", "different"),
        ("2+3=5", "x=y", "different"),
        ("y=2x", r"\mathbb{R}=2x", "different"),
        ("1=1", "y=y", "different"),
    ]);
}

#[test]
fn relations_beside_relations() {
    check(
        Rules::NONE,
        &[
            (r"\vec v=(1,2)", r"\vec{v}=(1,2)", "equal"),
            ("x=1, y=2=2", "x=1, y=2", "equal"),
            ("x=2=2", "x=2.0", "equal"),
            (r"x\approx 1.5", r"x\approx 3/2", "equal"),
            (r"x=3/2\approx 1.5", "x=3/2", "different"),
            ("a<b<c", "a<b<c+0", "equal"),
            ("a<b<c", "c>b>a", "different"),
        ],
    );
    strict(&[
        ("a<b<c", "c>b>a", "equal by scaled"),
        ("a<b<c", "c>a>b", "different"),
        ("a<b<c", "c>b<a", "different"),
        ("f(n)=n", "f(x)=x", "equal by renamed_argument"),
        ("f(n)=n", "g(x)=x", "different"),
        ("(1,2)=x", "x=(1.0,2)", "equal"),
        ("(1,2)=x", "x=(1,3)", "different"),
        ("(1,2)=x", "y=(1.0,2)", "different"),
        (r"(1,2)\ne x", r"(1.0,2)\ne x", "equal"),
        (r"(1,2)\ne x", r"(1,3)\ne x", "different"),
        (r"(1,2)\ne x", r"(1,2)\ne y", "different"),
        ("(1,2)<x", r"(1,2)\ne x", "different"),
        (r"x\in A", r"2x\in 2A", "different"),
        (r"x\in\{1,2\}", r"x\in\{1,2.0\}", "equal"),
        (r"x\in\{1,2\}", r"y\in\{1,2\}", "different"),
        (r"\pi k, k\in\mathbb{Z}", r"\pi k, m\in\mathbb{Z}", "different"),
    ]);
    lenient(&[
        (r"\pi k, k\in\mathbb{Z}", r"\pi n, n\in\mathbb{Z}", "equal by parameter_name"),
        (r"\pi k, k\in\mathbb{Z}", r"\pi k, m\in\mathbb{Z}", "different"),
        ("xy=1", "y=1/x", "equal by equivalent_equation"),
        ("xy=1", "zy=1", "different"),
        (r"y=\frac{1}{x}+\frac{1}{z}", "xyz=x+z", "equal by equivalent_equation"),
        (r"a+b+c+d+e+f+\frac{1}{x}=0", "x(a+b+c+d+e+f)+1=0", "equal by equivalent_equation"),
        // More than eight terms are not brought over one denominator.
        (r"a+b+c+d+e+f+g+h+\frac{1}{x}=0", "x(a+b+c+d+e+f+g+h)+1=0", "different"),
    ]);
}

#[test]
fn an_equation_and_the_list_of_its_solutions() {
    lenient(&[
        ("x^2=4", r"\pm 2", "equal by solutions"),
        ("x^2=4", "2", "different"),
        ("x^2=4", "x=2, x=-2", "equal by solutions"),
        ("x^2=4", "x_1=2, x_2=-2", "equal by solutions"),
        ("x^2=4", "y=2, y=-2", "different"),
        ("x^2=4", "2a,-2", "different"),
        ("2x=10", "y=5", "different"),
        ("2x=10", r"5\text{ apples}", "equal by solutions"),
        ("x^3-6x^2+11x-6=0", "1,2,3", "equal by solutions"),
        ("x^3-6x^2+11x-6=0", "1,2", "different"),
        ("x^5-x=0", "0,1,-1", "equal by solutions"),
        ("x^5-x=0", "0,1", "different"),
        ("x^3=8", "2", "equal by solutions"),
        ("-x^3=8", "-2", "equal by solutions"),
        ("x^3+x=10", "2", "equal by solutions"),
        ("x^5+x^3=0", "0", "equal by solutions"),
        ("x^4=16", "2,-2", "equal by solutions"),
        ("x^4=16", "2", "different"),
        ("x^7-x=0", "0,1,-1", "equal by solutions"),
        ("(x-1)^2(x-2)=0", "1,2", "equal by solutions"),
        ("(x-1)^2(x-2)=0", "1", "different"),
        ("-x^3+x=0", "0,1,-1", "equal by solutions"),
        ("-x^3+x=0", "0,1", "different"),
        ("x^4+4=0", "1", "different"),
        ("|x|=5", "5,-5", "equal by solutions"),
    ]);
    let undecided = Err(Reason::Undecided("whether an equation has more solutions than those given".into()));
    assert_eq!(decided("3^x=27", "3"), undecided);
    assert_eq!(decided("3^x=27", "2"), Ok(false));
    // From 0 upwards this is a square.
    assert_eq!(decided("x|x|=4", "2"), undecided);
    assert_eq!(decided("x^2=4", "(1,2),3"), Ok(false));
    assert_eq!(decided(r"x^2=\{1,2\}", "1"), Ok(false));
}

#[test]
fn lists_sets_and_tuples() {
    strict(&[
        ("0,4", "0.0,4", "equal"),
        ("0,4", "4,0.0", "equal by unordered"),
        (r"\{5\}", "5.0", "equal by set_braces"),
        (r"1\pm 2", "-1,3", "equal by plus_minus"),
        ("1", r"2,\frac10\pm 1", "different"),
        (r"2,\frac10\pm 1", "1", "different"),
        ("0,4", "x=0,x=4", "equal by assignment"),
        (r"1,2,\ldots", "1,2", "undecided: dots that stand for what is not written"),
    ]);
    lenient(&[
        ("(1,2)", "x=1,y=2", "equal by tuple_list"),
        ("(1,2)", "x=1, x=2", "different"),
        ("(1,2)", r"\{1,2\}", "different"),
        ("(1,2)", "x<1, y<2", "different"),
        ("(1,2)", "2,1", "different"),
        (r"(1,2=x^32^32)", "x=1,y=2", "different"),
        ("(x,y)=(1,2)", "x=1,y=2", "equal by tuple_list"),
        ("(x,x)=(1,2)", "x=1,x=2", "different"),
    ]);
    strict(&[("(1,2)", "x=1,y=2", "different"), ("(1,2,3)", "1,2,3", "different")]);
}
