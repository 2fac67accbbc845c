// Routes of a message through a machine. A collective names its route, topo derives the limits of each.
#pragma once

namespace p5 {

// The route decides which part of a machine limits a collective, and how.
enum class Route {
  rings,            // through all ranks, over all NICs of a node: inter-node traffic per node is about the message size
  sums,             // as rings, but a tree between two or three nodes sends one sum per node and needs less of the NICs
  exchange,         // each rank with all others at once, each over its own NICs
  uneven_exchange,  // as exchange; blocks grow with the distance in the ring of ranks, none to itself
  star,             // all others with the root at once, over the root's own NICs
  neighbours,       // whole message from one rank to one other, over that rank's own NICs
};

}  // namespace p5
