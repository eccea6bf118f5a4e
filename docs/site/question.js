// Before each answer of the course a field for the reader's own, which is compared with it.
for (const details of document.querySelectorAll("details[data-answer]")) {
  const [answer, within] = [Number(details.dataset.answer), Number(details.dataset.within)];
  const form = document.createElement("form");
  form.className = "question";
  form.innerHTML = '<label>Your answer <input type="text" inputmode="decimal" autocomplete="off"></label> <button class="md-button" type="submit">Check</button> <output aria-live="polite"></output>';
  const [field, said] = [form.querySelector("input"), form.querySelector("output")];
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim().replace(",", ".");
    const given = Number(text);
    if (text === "" || Number.isNaN(given)) said.textContent = "Write a number, as in 0.5.";
    else if (Math.abs(given - answer) <= within * (1 + 1e-6)) said.textContent = "Right.";
    else said.textContent = `Not yet: ${text} is too ${given > answer ? "large" : "small"}.`;
    if (said.textContent === "Right.") details.open = true;
  });
  details.before(form);
}
