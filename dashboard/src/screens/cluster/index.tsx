// Cluster: nodes and what they have, asked every few seconds while the page is visible.
import { useCallback, useEffect, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { Dialog } from "../../parts/dialog";
import { ErrorBox, Loading } from "../../parts/states";
import "../common/common.css";
import "./cluster.css";
import { useZone } from "../../frame/zone";
import { usePoll } from "../common/poll";
import { balanceRegions, isStandalone, liveDatanodes, loadCluster, type PeerRow } from "./load";
import { MoveDialog } from "./move";
import { Failovers, Nodes, Procedures, Regions } from "./panels";

const EVERY_MS = 3000;
const TYPING_MS = 300;

export default function ClusterScreen() {
  const [typed, setTyped] = useState("");
  const filter = useSettled(typed, TYPING_MS);
  const [moving, setMoving] = useState<PeerRow | null>(null);
  useZone();
  const { value, error, refresh } = usePoll((signal) => loadCluster(filter, signal), EVERY_MS, []);
  // Another filter asks at once, and what is shown stays until the answer.
  useEffect(refresh, [filter]);
  if (!value) return error ? <ErrorBox message={error} onRetry={refresh} /> : <Loading what="the cluster" />;
  const nodes = value.nodes.rows;
  const isOne = isStandalone(nodes);
  const live = liveDatanodes(nodes);
  return (
    <div class="screen">
      {error && <ErrorBox message={error} onRetry={refresh} />}
      {isOne ? (
        <OneNode />
      ) : (
        <Summary alive={live.length} regions={sum(value.regions)} onBalanced={refresh} />
      )}
      <Nodes nodes={value.nodes} regions={value.regions} />
      <Regions
        facts={value}
        filter={typed}
        onFilter={setTyped}
        onMove={!isOne && live.length > 1 ? setMoving : null}
      />
      {!isOne && <Failovers part={value.failovers} />}
      {!isOne && <Procedures part={value.procedures} />}
      {moving && (
        <MoveDialog
          region={moving}
          targets={live.filter((node) => String(node.peer_id) !== String(moving.peer_id))}
          onClose={() => setMoving(null)}
          onMoved={refresh}
        />
      )}
    </div>
  );
}

function sum(counts: Map<string, number>): number {
  return [...counts.values()].reduce((all, count) => all + count, 0);
}

function OneNode() {
  return (
    <p class="notice one-node">
      This is one node: a standalone server, which has all regions itself. There is nothing to fail over to,
      and nothing to move. A cluster is the same program, started as metasrv, datanode and frontend.
    </p>
  );
}

function Summary({ alive, regions, onBalanced }: { alive: number; regions: number; onBalanced: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const [said, setSaid] = useState("");
  const [failure, setFailure] = useState("");
  const close = useCallback(() => setAsking(false), []);
  const balance = async () => {
    setAsking(false);
    setFailure("");
    try {
      setSaid(`${await balanceRegions()} regions are being moved.`);
    } catch (error) {
      setFailure(messageOf(error));
    }
    onBalanced();
  };
  return (
    <>
      <div class="live">
        <p>
          {alive} live {alive === 1 ? "datanode" : "datanodes"}, {regions}{" "}
          {regions === 1 ? "region" : "regions"}
        </p>
        <button type="button" class="button small" disabled={alive < 2} onClick={() => setAsking(true)}>
          Balance…
        </button>
        <p class="soft" role="status">
          {said}
        </p>
      </div>
      {failure && <ErrorBox message={failure} />}
      {isAsking && (
        <Dialog title="Balance the regions?" onClose={close}>
          <p class="dialog-text">
            Regions move from datanodes with many to datanodes with few. Writes to a region that moves wait or
            fail for about a second.
          </p>
          <p class="actions">
            <button type="button" class="button" onClick={close}>
              Leave them
            </button>
            <button type="button" class="button primary" onClick={() => void balance()}>
              Balance the regions
            </button>
          </p>
        </Dialog>
      )}
    </>
  );
}

/** A value, when it has not changed for a while. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
