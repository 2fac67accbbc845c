// The ways of a message through a machine: the collectives say which is theirs, topo what limits each.
#pragma once

namespace p5 {

// How the message goes from rank to rank: what decides which part of a machine limits it, and how.
enum class Route {
  rings,     // through all ranks, over all NICs of a node: a node's traffic with others is about the message once
  sums,      // as rings; but between two or three nodes a tree sends only the sum of each node, and needs less of NICs
  exchange,  // each rank with all others at once, each over its own NICs
  uneven_exchange,  // as exchange, but the more the farther on in the ring of ranks the other is, and nothing to itself
  star,             // all others with the root at once, over the root's own NICs
  neighbours,       // whole from one rank to one other, over that rank's own NICs
};

}  // namespace p5
