// Follows the theme of Airflow around this page; on its own, that of the system.
(() => {
  const own = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const outer = parent !== self ? parent.document.documentElement : null;
  own.dataset.framed = outer ? "yes" : "no";
  const follow = () => {
    const dark = outer ? outer.classList.contains("dark") : system.matches;
    own.dataset.theme = dark ? "dark" : "light";
    own.dispatchEvent(new Event("themed"));
  };
  follow();
  if (outer) new MutationObserver(follow).observe(outer, { attributes: true, attributeFilter: ["class"] });
  system.addEventListener("change", follow);
})();
