export function format(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${String(seconds % 60).padStart(2, "0")}`;
}

function start() {
  let left = Number(document.querySelector("#minutes").value) * 60;
  const output = document.querySelector("#left");
  const timer = setInterval(() => {
    left -= 1;
    output.textContent = left > 0 ? format(left) : "Ready";
    if (left <= 0) clearInterval(timer);
  }, 1000);
}

document.querySelector("#start")?.addEventListener("click", start);
