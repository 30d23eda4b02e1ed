// Splits a verb's line into options and words, and prints its answers.
#include "cli/verbs/verb.h"

#include <cstdio>
#include <utility>

#include "base/print.h"
#include "base/strings.h"
#include "cli/help/help.h"
#include "cli/hosts/standard_streams.h"
#include "cli/options/color_option.h"
#include "cli/verbs/field_words.h"

namespace muster::cli::inline verbs {

base::Result<VerbLine> read_verb_line(const std::vector<std::string>& arguments, const FlagTable& table) {
  VerbLine line;
  std::vector<std::string> rest = arguments;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(auto part, split_command_line(rest, table));
    line.options.options.insert(line.options.options.end(), part.options.begin(), part.options.end());
    line.options.is_answered = part.is_answered;
    if (part.is_answered || part.command.empty()) return line;
    line.words.push_back(part.command.front());
    rest.assign(part.command.begin() + 1, part.command.end());
  }
}

VerbCall::VerbCall(std::string verb, const CommandDoc& doc, const std::vector<std::string>& arguments)
    : verb_(std::move(verb)),
      table_(*doc.table),
      console_(typed_color(arguments, *doc.table, OptionsEnd::kNowhere), base::Environment::current()) {
  auto line = read_verb_line(arguments, *doc.table);
  if (!line.ok()) {
    exit_code_ = fail(line.status().message());
    return;
  }
  if (line->options.is_answered) {
    const Flag& asked = *line->options.options.back().flag;
    exit_code_ = console_.help("muster " + verb_, help_text_for(asked, doc, console_.look()));
    return;
  }
  words_ = std::move(line->words);
  if (const base::Status set = settings_.add_layer(settings_of(line->options)); !set.ok()) {
    exit_code_ = fail(set.message());
    return;
  }
  if (const auto color = read_color(settings_); !color.ok()) exit_code_ = fail(color.status().message());
}

int VerbCall::fail(std::string_view message, int code) const {
  return console_.fail("muster " + verb_, code, message);
}

int VerbCall::fail(const base::Status& status) const {
  const bool is_usage = status.code() == base::Code::kInvalidArgument || status.code() == base::Code::kNotFound ||
                        status.code() == base::Code::kFailedPrecondition;
  return fail(base::printable(in_words_of_options(status, table_).message()), is_usage ? kUsageError : kNotAnswered);
}

void VerbCall::remark(std::string_view message) const {
  base::print_remark("muster {}: {}\n", verb_, message);
}

int VerbCall::print(std::string_view text) const {
  return print_answer("muster " + verb_, text);
}

FlagTable verb_table(std::vector<FlagRow> rows, std::vector<Argument> arguments) {
  rows.push_back(color_row());
  std::vector<Flag> flags;
  add_group(FlagGroup::kGeneral, std::move(rows), flags);
  add_group(FlagGroup::kGeneral, help_rows(), flags);
  return FlagTable(std::move(flags), std::move(arguments));
}

FlagRow all_rows_row() {
  return toggle(
             "all", {{"-a", "true"}, {"--all", "true"}},
             "All rows. Without it, tables on a terminal have the rows of failures and late hosts first, and as many "
             "others as the screen has room for.")
      .command_line_only();
}

FlagRow json_row(std::string_view help) {
  return toggle("json", {{"--json", "true"}}, help).command_line_only();
}

std::vector<FlagRow> with_launcher_rows(std::vector<FlagRow> rows) {
  rows.push_back(option("launcher", {"--launcher"}, "ADDR",
                        "The launcherd to ask: unix:/path, host:port or [v6]:port. Default: MUSTER_LAUNCHER, else your "
                        "launcherd on this host.")
                     .command_line_only());
  rows.push_back(option("tls-cert", {"--tls-cert"}, "FILE", "For TCP: the certificate that identifies you (PEM).")
                     .completes(Completes::kFile)
                     .command_line_only());
  rows.push_back(option("tls-key", {"--tls-key"}, "FILE", "For TCP: the private key of that certificate (PEM).")
                     .completes(Completes::kFile)
                     .command_line_only());
  rows.push_back(
      option("tls-ca", {"--tls-ca"}, "FILE", "For TCP: the certificate of the authority that signed launcherd's (PEM).")
          .completes(Completes::kFile)
          .command_line_only());
  return rows;
}

}  // namespace muster::cli::verbs
