import { EmptyState } from "../../parts/states";

export default function Logs() {
  return <EmptyState title="Logs">This screen is not here yet.</EmptyState>;
}
