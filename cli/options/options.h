// Reads hvdrun's command line, environment and configuration into HvdrunOptions. It reads configuration and job files
// (cli/options/config_file.h) and a template's files. It reads no other files and resolves no host names.
// If an option is given twice, the last value counts, as with horovodrun. Values of --env add up.
// Example:
//
//   ParsedHvdrun parsed = parse_hvdrun({argv + 1, argv + argc}, environment, {.build_id = base::build_id()});
//   if (parsed.exit_code) …print parsed.text to stdout (0) or stderr, return *parsed.exit_code
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/help/command_doc.h"
#include "cli/help/text_look.h"
#include "cli/options/command_line.h"
#include "cli/options/dry_run_options.h"
#include "cli/options/job_request.h"
#include "cli/options/output_plan.h"
#include "cli/options/reach.h"
#include "cli/options/settings.h"

namespace muster::cli::inline options {

// One command line, as parsed. Functions take only the part that they need.
struct HvdrunOptions {
  JobRequest request;
  Reach reach;
  OutputPlan output;
  DryRunOptions dry_run;
};

struct ParsedHvdrun {
  // If set, print `text` and exit with this code. Help and version go to stdout with 0, a mistake goes to stderr with
  // 2.
  std::optional<int> exit_code;
  std::string text;      // whole lines; mistakes begin with "hvdrun: "
  bool is_help = false;  // `text` is a help text
  HvdrunOptions options;
};

// Makes the result for a command line that needs only `text` as its answer.
ParsedHvdrun answer(int exit_code, std::string text);
// Makes the result for -h or --help, with which `line` ends.
ParsedHvdrun answer_help(const CommandLine& line, const CommandDoc& doc, const TextLook& look);

struct ParseContext {
  std::string_view build_id;
  std::string system_config = "/etc/muster/config.yaml";  // need not exist
  std::string program_directory = {};                     // the directory of muster_perf, for --self-test
  bool is_horovodrun = false;                             // hvdrun was called by the name horovodrun
  TextLook look = {};                                     // of help texts
};

// `arguments` excludes the program's name.
ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

// Handles --assume-node with the name of a template: takes the template's node and its pattern for names of made-up
// hosts. Reads the template's files.
base::Status assume_template_node(const Settings& settings, const base::Environment& environment,
                                  DryRunOptions& dry_run);

// INVALID_ARGUMENT: a job of several programs must keep its hosts and ranks, but the options ask for changes.
base::Status check_programs(const JobRequest& request);

// Reads the job from the settings. Its command and the results of assume_template_node() are not included.
base::Result<HvdrunOptions> read_options(const Settings& settings);

}  // namespace muster::cli::options
