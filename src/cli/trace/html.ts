/** Text as it stands in HTML, attributes included: what is traced may be anybody's. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
