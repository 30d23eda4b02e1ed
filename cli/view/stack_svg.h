// Draws the stacks of a job as a flame graph, for `muster stacks --svg`.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "cli/view/stack_classes.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

// Returns an SVG document. Outermost calls are at the top. The width of a call is its share of all threads over all
// looks; its title names the ranks. What could not be read, or not exactly, is written below.
std::string stack_svg(const StackClasses& all);
std::string stack_svg(const std::vector<v1::ProcessStack>& processes);

}  // namespace muster::cli::view
