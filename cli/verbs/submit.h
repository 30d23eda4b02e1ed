// `muster submit`: gives a job to launcherd. hvdrun's options say what runs and where.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

struct ParsedSubmit {
  // If set, `text` answers the command line. Help goes to stdout with 0, a mistake goes to stderr with 2.
  std::optional<int> exit_code;
  std::string text;
  bool is_help = false;  // `text` is a help text
  HvdrunOptions options;
  v1::SubmitRequest own_request;  // from submit's own options; they are merged over those of `options`
  Settings own;                   // --launcher and its certificates
};

// Reads no file except the configuration, or the job file that it names.
ParsedSubmit parse_submit(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context, base::WallTime now);

// Returns a line with the job's id, or a muster.v1.SubmitResponse.
std::string submit_answer(const std::string& job_id, bool as_json);

// Returns the exit code; prints the job's id.
int run_submit(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& submit_doc();

}  // namespace muster::cli::verbs
