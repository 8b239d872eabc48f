import { EmptyState } from "../../parts/states";

export default function Query() {
  return <EmptyState title="Query" />;
}
