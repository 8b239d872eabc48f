import { EmptyState } from "../../parts/states";

export default function Cluster() {
  return <EmptyState title="Cluster">This screen is not here yet.</EmptyState>;
}
