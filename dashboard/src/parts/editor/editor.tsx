// The editor of queries: CodeMirror in a shadow tree.
//
// The editor makes its style sheets by script. In a document that would be inline styles, which the content security
// policy forbids; in a shadow tree they are constructed sheets, which it does not concern. Colours come from the
// variables of the page, which reach into the tree.
import {
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, forceLinting, linter } from "@codemirror/lint";
import { Compartment, EditorState, type Extension, Prec, StateEffect, StateField } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

export interface Mark {
  from: number;
  to: number;
  message: string;
}

interface Props {
  label: string;
  text: string;
  onChange: (text: string) => void;
  onRun: () => void;
  /** The language with its completion. */
  language: Extension;
  /** Where the server found an error. */
  mark: Mark | null;
  hint: string;
}

export function Editor({ label, text, onChange, onRun, language, mark, hint }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const calls = useRef({ onChange, onRun });
  // What was typed comes back as the property `text`, later than the next key: only other texts replace what is there.
  const pending = useRef<string[]>([]);
  const isGiven = useRef(false);
  calls.current = { onChange, onRun };
  const slots = useRef({
    language: new Compartment(),
    label: new Compartment(),
    hint: new Compartment(),
  }).current;

  // Made once: later values are dispatched by the effects below.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open", delegatesFocus: true });
    const run = (shown: EditorView) => {
      closeCompletion(shown);
      calls.current.onRun();
      return true;
    };
    const leave = (shown: EditorView) => {
      shown.contentDOM.blur();
      return true;
    };
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          Prec.highest(keymap.of(["Mod-Enter", "Ctrl-Enter"].map((key) => ({ key, run })))),
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          syntaxHighlighting(HIGHLIGHT),
          slots.language.of(language),
          slots.label.of(EditorView.contentAttributes.of({ "aria-label": label })),
          slots.hint.of(placeholder(hint)),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          Prec.lowest(keymap.of([{ key: "Escape", run: leave }])),
          MARK,
          MARK_LINTER,
          EditorView.domEventHandlers({ beforeinput: replaceSelected }),
          EditorView.lineWrapping,
          EditorView.updateListener.of((update) => {
            if (!update.docChanged || isGiven.current) return;
            const typed = update.state.doc.toString();
            pending.current.push(typed);
            calls.current.onChange(typed);
          }),
          LOOK,
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const made = view.current;
    const at = pending.current.lastIndexOf(text);
    pending.current = at < 0 ? [] : pending.current.slice(at + 1);
    if (!made || at >= 0 || made.state.doc.toString() === text) return;
    isGiven.current = true;
    made.dispatch({ changes: { from: 0, to: made.state.doc.length, insert: text } });
    isGiven.current = false;
  }, [text]);
  useEffect(() => {
    view.current?.dispatch({
      effects: [
        slots.language.reconfigure(language),
        slots.label.reconfigure(EditorView.contentAttributes.of({ "aria-label": label })),
        slots.hint.reconfigure(placeholder(hint)),
      ],
    });
  }, [language, label, hint, slots]);
  useEffect(() => {
    const made = view.current;
    if (!made || made.state.field(MARK) === mark) return;
    made.dispatch({ effects: setMark.of(mark) });
    forceLinting(made);
  }, [mark]);
  return <div class="editor" ref={host} tabIndex={-1} />;
}

/**
 * Put what is typed in the place of what is selected. Chromium would carry the look of the old text over with an inline
 * style, which the content security policy forbids.
 */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  const { from, to, empty } = view.state.selection.main;
  const typed = event.data;
  if (event.inputType !== "insertText" || !typed || empty || view.composing) return false;
  const insert = () =>
    view.state.update(view.state.replaceSelection(typed), { userEvent: "input.type", scrollIntoView: true });
  const handlers = view.state.facet(EditorView.inputHandler);
  if (!handlers.some((handle) => handle(view, from, to, typed, insert))) view.dispatch(insert());
  return true;
}

// A language may look for errors itself, each time after a pause. What it finds is shown beside the error of the server
// only if that is found by a linter, too: a diagnostic that is set once is gone with the next result.
const setMark = StateEffect.define<Mark | null>();
const MARK = StateField.define<Mark | null>({
  create: () => null,
  update(mark, { effects, docChanged }) {
    const given = effects.find((effect) => effect.is(setMark));
    return given ? given.value : docChanged ? null : mark;
  },
});
const MARK_LINTER = linter(
  ({ state }): Diagnostic[] => {
    const mark = state.field(MARK);
    return mark ? [{ ...bounded(mark, state.doc.length), severity: "error" }] : [];
  },
  { needsRefresh: ({ state, startState }) => state.field(MARK) !== startState.field(MARK) },
);

function bounded({ from, to, message }: Mark, length: number): Mark {
  const begin = Math.min(from, length);
  return { from: begin, to: Math.min(Math.max(to, begin), length), message };
}

const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: tags.special(tags.name), color: "var(--code-number)", fontWeight: "600" },
  { tag: [tags.number, tags.bool, tags.null, tags.literal], color: "var(--code-number)" },
  {
    tag: [tags.typeName, tags.standard(tags.name), tags.function(tags.variableName)],
    color: "var(--code-function)",
  },
  {
    tag: [tags.comment, tags.lineComment, tags.blockComment],
    color: "var(--code-comment)",
    fontStyle: "italic",
  },
]);

const LOOK = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "0.93rem", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-soft)", border: "none" },
  ".cm-placeholder": { color: "var(--text-soft)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)",
  },
  "&.cm-focused .cm-matchingBracket": {
    backgroundColor: "var(--accent-soft)",
    outline: "1px solid var(--accent)",
  },
  // The library underlines with an image in a data: address, which the policy forbids.
  ".cm-lintRange-error, .cm-lintRange-warning, .cm-lintRange-info": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--bad)",
    textUnderlineOffset: "3px",
    textDecorationSkipInk: "none",
  },
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--bad)" },
  ".cm-tooltip": {
    backgroundColor: "var(--surface)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    boxShadow: "var(--shadow-strong)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent-soft)",
    color: "var(--accent-strong)",
  },
  ".cm-completionDetail": { color: "var(--text-soft)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)", fontFamily: "var(--font)" },
});
