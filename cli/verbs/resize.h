// The verb `muster resize`, and what it shares with `muster hosts add`. Both ask launcherd (launcher.proto, Resize).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/help/command_doc.h"
#include "cli/verbs/verb.h"
#include "model/host_spec.h"

namespace muster::cli::inline verbs {

// A new number of ranks, as the user writes it: "=12", "+2" or "-2".
struct SizeChange {
  enum class How { kTo, kBy };
  How how = How::kTo;
  int ranks = 0;  // with kBy negative if the job gets fewer

  // Returns the number of ranks of a job that has `size` now.
  int from(int size) const { return how == How::kTo ? ranks : size + ranks; }
};

// nullopt: the text is not of this form.
std::optional<SizeChange> parse_size_change(std::string_view text);

int run_resize(const std::string& verb, const std::vector<std::string>& arguments);
const CommandDoc& resize_doc();

// Runs `muster hosts add JOB HOST[:SLOTS]...`. The call's first word is "add". Returns the exit code.
int add_hosts_to_job(const VerbCall& call);

}  // namespace muster::cli::verbs
