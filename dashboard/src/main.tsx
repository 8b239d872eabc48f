import { render } from "preact";
import { App } from "./frame/app";
import { applyTheme } from "./frame/theme";
import "./frame/theme.css";
import "./frame/frame.css";
import "./parts/parts.css";

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
