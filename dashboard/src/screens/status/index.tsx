import { EmptyState } from "../../parts/states";

export default function Status() {
  return <EmptyState title="Status">This screen is not here yet.</EmptyState>;
}
