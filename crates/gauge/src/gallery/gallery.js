// Filters the rows of a gallery. The page is whole without it; what is chosen stands in the address, so that it can be shared.
(() => {
  'use strict';
  const filter = document.querySelector('.filter');
  const choices = [...filter.querySelectorAll('select')];
  const rows = [...document.querySelectorAll('tr[data-page]')];
  const output = filter.querySelector('output');

  const apply = () => {
    const wanted = choices.filter((choice) => choice.value);
    for (const row of rows) row.hidden = wanted.some((choice) => row.dataset[choice.name] !== choice.value);
    const machines = rows.filter((row) => row.closest('.machines'));
    const shown = machines.filter((row) => !row.hidden).length;
    output.textContent = `${shown} of ${machines.length} shown`;
    for (const table of document.querySelectorAll('section.of-system')) table.hidden = [...table.querySelectorAll('tr[data-page]')].every((row) => row.hidden);
  };
  const keep = () => {
    const words = new URLSearchParams(choices.filter((choice) => choice.value).map((choice) => [choice.name, choice.value]));
    history.replaceState(null, '', words.size ? `#?${words}` : location.pathname + location.search);
    apply();
  };
  const recall = () => {
    if (!location.hash.startsWith('#?')) return;
    const words = new URLSearchParams(location.hash.slice(2));
    // Only what the page itself offers is chosen.
    for (const choice of choices) choice.value = [...choice.options].some((option) => option.value === words.get(choice.name)) ? words.get(choice.name) : '';
  };
  for (const choice of choices) choice.addEventListener('change', keep);
  addEventListener('hashchange', () => { recall(); apply(); });
  filter.hidden = false;
  recall();
  apply();
})();
