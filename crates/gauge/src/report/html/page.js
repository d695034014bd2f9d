// Draws the pictures of a report from the figures embedded beside it. The page is whole without it: every figure
// stands in a table too.
//
// A picture is a specification made by the program: shared x values, series of y values, and what the axes are.
// Each series has a colour and a dash pattern of its own, so that the colour is not the only carrier.
(() => {
  'use strict';

  const PALETTE = {
    light: ['#0072b2', '#c44e00', '#00795a', '#a03a84', '#6b5b00', '#4b4fb5', '#5b6570', '#b3202c'],
    dark: ['#62b8ee', '#f2965a', '#4fd0a5', '#e59acb', '#e0cf5a', '#a5a8ff', '#b4bec9', '#ff8d8d'],
  };
  const CHROME = {
    light: { ink: '#3d4650', grid: '#e3e6e9' },
    dark: { ink: '#b4bec9', grid: '#2f363f' },
  };
  const DASHES = [[], [9, 4], [2, 3], [12, 3, 2, 3], [5, 3], [1, 4], [8, 2, 2, 2, 2, 2]];
  const HEIGHT = { wide: 380, narrow: 290, print: 300 };
  const PRINT_WIDTH = 660;
  const HINT = 'Point at the picture, or focus it and press the arrow keys, to read its values.';

  let printing = false;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const theme = () => (!printing && dark.matches ? 'dark' : 'light');
  const dash = (index) => DASHES[(index + Math.floor(index / PALETTE.light.length)) % DASHES.length];

  const digits = (value) => (value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0));
  const trim = (text) => (text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text);
  const scaled = (value, steps) => {
    let chosen = steps[0];
    for (const step of steps) if (Math.abs(value) >= step[0] * 0.9995) chosen = step;
    return trim(digits(value / chosen[0])) + chosen[1];
  };
  const FORMAT = {
    ns: (value) => (value < 1 ? '0 ns' : scaled(value, [[1, ' ns'], [1e3, ' µs'], [1e6, ' ms'], [1e9, ' s']])),
    seconds: (value) => trim(value.toFixed(3)) + ' s',
    nines: (value) => {
      const percent = 100 * (1 - 10 ** -value);
      return trim(percent.toFixed(Math.max(0, Math.ceil(value - 1e-9) - (value > 2 ? 1 : 0)))) + '%';
    },
    bytes: (value) => scaled(value, [[1, ' B'], [1024, ' KiB'], [1048576, ' MiB'], [1073741824, ' GiB']]),
    number: (value) => scaled(value, [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G']]),
    share: (value) => trim((value * 100).toFixed(1)) + ' %',
  };

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  const swatch = (index) => {
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    const line = document.createElementNS(space, 'line');
    svg.setAttribute('width', '34');
    svg.setAttribute('height', '10');
    svg.setAttribute('aria-hidden', 'true');
    for (const [key, value] of Object.entries({ x1: 0, x2: 34, y1: 5, y2: 5, 'stroke-width': 3 })) line.setAttribute(key, value);
    line.setAttribute('stroke-dasharray', dash(index).join(' '));
    line.setAttribute('stroke', PALETTE[theme()][index % PALETTE.light.length]);
    svg.append(line);
    return svg;
  };

  // What one line lacks because another has its value there is bridged (undefined); where it pauses it is broken: all
  // from one value to the next must be null for that.
  const broken = (one) => {
    const values = one.ys.map((value) => (value === null ? undefined : value));
    const lacks = (index) => values[index] === undefined || values[index] === null;
    for (const at of one.gaps || []) {
      for (let index = at; index >= 0 && lacks(index); index -= 1) values[index] = null;
      for (let index = at + 1; index < values.length && lacks(index); index += 1) values[index] = null;
    }
    return values;
  };

  class Picture {
    constructor(spec) {
      this.spec = spec;
      this.figure = document.getElementById(spec.id);
      this.host = this.figure.querySelector('.plot');
      this.readout = this.figure.querySelector('.readout');
      if (this.readout) this.readout.textContent = HINT;
      this.shown = spec.series.map((series) => series.on);
      this.choices();
      this.host.addEventListener('keydown', (event) => this.key(event));
      this.draw();
      new ResizeObserver(() => this.fit()).observe(this.host);
    }

    choices() {
      const box = this.figure.querySelector('fieldset');
      if (!box) return;
      this.boxes = this.spec.series.map((series, index) => {
        const input = element('input', { type: 'checkbox' });
        input.checked = this.shown[index];
        input.addEventListener('change', () => this.show(index, input.checked));
        const label = element('label', {}, input, swatch(series.look), series.name);
        label.addEventListener('mouseenter', () => this.plot && this.plot.setSeries(index + 1, { focus: true }));
        label.addEventListener('mouseleave', () => this.plot && this.plot.setSeries(null, { focus: true }));
        box.append(label);
        return input;
      });
      if (this.spec.series.length > 3) {
        const button = (name, wanted) => {
          const made = element('button', { type: 'button' }, name);
          made.addEventListener('click', () => this.boxes.forEach((input, index) => {
            input.checked = wanted(index);
            this.show(index, input.checked);
          }));
          return made;
        };
        box.append(button('all', () => true), button('none', () => false), button('as at first', (index) => this.spec.series[index].on));
      }
    }

    show(index, on) {
      this.shown[index] = on;
      this.plot.setSeries(index + 1, { show: on });
      this.plot.redraw(true, true);
    }

    size() {
      if (printing) return { width: PRINT_WIDTH, height: HEIGHT.print };
      const width = Math.max(240, Math.floor(this.host.clientWidth));
      return { width, height: width < 560 ? HEIGHT.narrow : HEIGHT.wide };
    }

    fit() {
      if (!this.plot || printing) return;
      const size = this.size();
      if (size.width !== this.plot.width) this.plot.setSize(size);
    }

    // The lowest and highest value of the series that are shown, whiskers included.
    bounds() {
      let low = Infinity;
      let high = -Infinity;
      this.spec.series.forEach((series, index) => {
        if (!this.shown[index]) return;
        for (const values of [series.ys, series.highs || []]) {
          for (const value of values) {
            if (value === null || (this.spec.y.log && value <= 0)) continue;
            low = Math.min(low, value);
            high = Math.max(high, value);
          }
        }
      });
      if (low > high) return this.spec.y.log ? [1, 10] : [0, 1];
      return this.spec.y.log ? [low / 1.25, high * 1.25] : [Math.min(0, low), high * 1.08 || 1];
    }

    // Marks of a logarithmic axis: powers of ten, with 2 and 5 between them where there is room.
    decades() {
      const [low, high] = this.bounds();
      const marks = [];
      const few = Math.log10(high / low) > (this.size().width < 560 ? 2.5 : 4);
      for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
        for (const step of few ? [1] : [1, 2, 5]) if (power * step >= low && power * step <= high) marks.push(power * step);
      }
      return marks;
    }

    axes() {
      const chrome = CHROME[theme()];
      const common = { stroke: chrome.ink, grid: { stroke: chrome.grid, width: 1 }, ticks: { stroke: chrome.grid, width: 1, size: 5 }, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif', labelSize: 20 };
      const { x, y, xs } = this.spec;
      const across = { ...common, label: x.label, size: 34, values: (plot, splits) => splits.map((value) => (value === null ? '' : FORMAT[x.kind](value))) };
      if (x.kind === 'nines') {
        const last = xs[xs.length - 1];
        across.splits = (plot) => {
          const room = plot.bbox.width / devicePixelRatio / Math.max(last, 1);
          const marks = [0, Math.log10(2), 1, 2, 3, 4, 5, 6, 7, 8].filter((mark) => mark <= last + 1e-9);
          // Each nine makes a label one digit, 8 pixels, longer. The last mark is kept.
          const whole = marks.filter((mark) => Number.isInteger(mark));
          const every = Math.ceil((8 * whole.length) / Math.max(room, 1));
          if (every > 1) return whole.filter((mark) => (whole.length - 1 - mark) % every === 0);
          return room * Math.log10(2) < 46 ? whole : marks;
        };
      } else if (x.at_points) {
        across.splits = () => xs;
      }
      const rise = y.log ? { splits: () => this.decades() } : {};
      const up = { ...common, ...rise, label: y.label, size: 62, labelSize: 18, values: (plot, splits) => splits.map((value) => (value === null ? '' : FORMAT[y.kind](value))) };
      return [across, up];
    }

    draw() {
      const { x, y, xs, series } = this.spec;
      const colours = PALETTE[theme()];
      const lines = series.map((one, index) => ({
        label: one.name,
        show: this.shown[index],
        stroke: colours[one.look % colours.length],
        width: 2,
        dash: dash(one.look),
        spanGaps: false,
        points: { show: !!one.points, size: xs.length > 150 ? 4 : 6, fill: colours[one.look % colours.length] },
      }));
      if (this.plot) this.plot.destroy();
      this.host.replaceChildren();
      this.plot = new uPlot({
        ...this.size(),
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
        focus: { alpha: 0.25 },
        scales: {
          x: { time: false, distr: x.log ? 3 : 1, log: 2, ...(x.kind === 'seconds' || x.kind === 'nines' || xs.length > 1 ? {} : { range: [xs[0] - 1, xs[0] + 1] }) },
          y: { distr: y.log ? 3 : 1, log: 10, range: () => this.bounds() },
        },
        axes: this.axes(),
        series: [{}, ...lines],
        hooks: { drawAxes: [(plot) => this.spans(plot)], drawSeries: [(plot, index) => this.whiskers(plot, index)], setCursor: [(plot) => this.read(plot.cursor.idx)] },
      }, [xs, ...series.map(broken)], this.host);
      if (this.boxes) {
        this.boxes.forEach((input, index) => input.parentNode.querySelector('svg').replaceWith(swatch(series[index].look)));
      }
    }

    // Times that a finding is about: shaded, with a line where they begin.
    spans(plot) {
      const { ctx, bbox } = plot;
      const pixel = devicePixelRatio;
      const { ink } = CHROME[theme()];
      for (const { from, to, words } of this.spec.spans || []) {
        const inside = (at) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(at, 'x', true)));
        const [left, right] = [inside(from), inside(to)];
        ctx.save();
        ctx.fillStyle = ctx.strokeStyle = ink;
        ctx.globalAlpha = 0.1;
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
        ctx.globalAlpha = 1;
        ctx.lineWidth = 1.5 * pixel;
        ctx.setLineDash([6 * pixel, 4 * pixel]);
        ctx.beginPath();
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.stroke();
        ctx.font = `600 ${12 * pixel}px system-ui, sans-serif`;
        ctx.textBaseline = 'bottom';
        // Beside the line, on the side that has room.
        const fits = left + 6 * pixel + ctx.measureText(words).width < bbox.left + bbox.width;
        ctx.textAlign = fits ? 'left' : 'right';
        ctx.fillText(words, left + (fits ? 6 : -6) * pixel, bbox.top + bbox.height - 4 * pixel);
        ctx.restore();
      }
    }

    // From each point up to the longest commit of its block: where a stall shows.
    whiskers(plot, index) {
      const series = this.spec.series[index - 1];
      if (!series || !series.highs || !this.shown[index - 1]) return;
      const { ctx } = plot;
      const pixel = devicePixelRatio;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = PALETTE[theme()][series.look % PALETTE.light.length];
      ctx.lineWidth = pixel;
      this.spec.xs.forEach((at, position) => {
        const high = series.highs[position];
        const from = series.ys[position];
        if (high === null || high === undefined || from === null) return;
        const left = plot.valToPos(at, 'x', true);
        const top = plot.valToPos(high, 'y', true);
        ctx.globalAlpha = 0.55;
        ctx.beginPath();
        ctx.moveTo(left, plot.valToPos(from, 'y', true));
        ctx.lineTo(left, top);
        ctx.stroke();
        ctx.globalAlpha = 1;
        ctx.beginPath();
        ctx.moveTo(left, top - 4 * pixel);
        ctx.lineTo(left - 3.5 * pixel, top + 2.5 * pixel);
        ctx.lineTo(left + 3.5 * pixel, top + 2.5 * pixel);
        ctx.fill();
      });
      ctx.restore();
    }

    read(position) {
      if (!this.readout || printing) return;
      if (position === null || position === undefined) return;
      const { x, y, xs, series } = this.spec;
      const values = [];
      series.forEach((one, index) => {
        const value = one.ys[position];
        if (!this.shown[index] || value === null || value === undefined) return;
        const high = one.highs && one.highs[position];
        values.push([value, `${one.name} ${FORMAT[y.kind](value)}${high ? `, longest ${FORMAT[y.kind](high)}` : ''}`]);
      });
      values.sort((one, other) => one[0] - other[0]);
      this.readout.textContent = `${FORMAT[x.kind](xs[position])}: ${values.map((value) => value[1]).join(' · ') || 'nothing shown here'}`;
    }

    // Left and right walk along the picture, so that its values can be read without a pointer.
    key(event) {
      const { xs } = this.spec;
      const now = this.plot.cursor.idx === null || this.plot.cursor.idx === undefined ? -1 : this.plot.cursor.idx;
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -xs.length, End: xs.length }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = Math.min(xs.length - 1, Math.max(0, now + step));
      this.plot.setCursor({ left: this.plot.valToPos(xs[next], 'x'), top: 10 });
    }
  }

  const pictures = [];
  for (const spec of JSON.parse(document.getElementById('pictures').textContent)) {
    try {
      pictures.push(new Picture(spec));
    } catch (error) {
      const host = document.querySelector(`#${spec.id} .plot`);
      if (host) host.replaceChildren(element('p', { class: 'broken' }, 'This picture could not be drawn; its figures stand in the table below it.'));
      console.error(`picture ${spec.id}: ${error.stack || error}`);
    }
  }
  const redraw = () => pictures.forEach((picture) => picture.draw());
  dark.addEventListener('change', redraw);
  addEventListener('beforeprint', () => { printing = true; redraw(); });
  addEventListener('afterprint', () => { printing = false; redraw(); });

  // A table that is wider than the screen says so.
  for (const region of document.querySelectorAll('.scroll')) {
    const hint = element('p', { class: 'hint only-screen', 'aria-hidden': 'true' }, 'wider than the screen: scroll it sideways →');
    region.before(hint);
    const update = () => { hint.hidden = region.scrollWidth <= region.clientWidth + 1; };
    new ResizeObserver(update).observe(region);
    update();
  }

  // One picture of several is shown at a time where a choice stands above them.
  for (const choice of document.querySelectorAll('select[data-shows]')) {
    const update = () => {
      for (const option of choice.options) document.getElementById(option.value).hidden = option.value !== choice.value;
      pictures.forEach((picture) => picture.fit());
    };
    choice.addEventListener('change', update);
    update();
  }
  document.documentElement.dataset.pictures = String(pictures.length);
})();
