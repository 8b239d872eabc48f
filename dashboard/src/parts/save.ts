/** Let the browser save a file. */
export function saveAs(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser reads the content after the click has been handled.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
