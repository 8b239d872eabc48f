import { EmptyState } from "../../parts/states";

export default function Ingest() {
  return <EmptyState title="Ingest">This screen is not here yet.</EmptyState>;
}
