// The list at the top chooses a scenario. Without scripts the links do the same.
const list = document.getElementById("chooser");
if (list) {
  const choose = () => { list.value = location.hash.slice(1) || "all"; };
  list.addEventListener("change", () => { location.hash = list.value; });
  addEventListener("hashchange", choose);
  choose();
  list.closest("label").hidden = false;
  document.querySelector("nav a").hidden = true;
}
