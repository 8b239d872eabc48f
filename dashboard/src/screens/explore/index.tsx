import { EmptyState } from "../../parts/states";

export default function Explore() {
  return <EmptyState title="Explore" />;
}
