// The options and the help texts of `muster templates` and `muster render`.
#include "cli/verbs/templates_verbs.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

const std::vector<GroupTitle> kTemplateGroups = {{FlagGroup::kGeneral, "Options"}};

}  // namespace

const CommandDoc& templates_doc() {
  static const FlagTable kTable =
      verb_table({json_row("One muster.v1.JobTemplate a line."),
                  toggle("names", {{"--names", "true"}}, "Print only the names, one a line.").command_line_only()},
                 {{.choices = {"show"}}, {.completes = Completes::kTemplate, .after = "show"}});
  static const CommandDoc kDoc = {
      .name = "muster templates",
      .summary = "list the job templates",
      .usage = "[options] [show NAME|FILE]",
      .description =
          "Lists the built-in templates and those in ~/.config/muster/templates. show prints one template: its "
          "parameters with their help, and its YAML with everything that it extends. docs/templates.md explains how to "
          "write one.",
      .groups = kTemplateGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster templates", "all templates"},
                   {"muster templates show polaris", "one template with its parameters"},
                   {"muster templates show polaris > ~/.config/muster/templates/mine.yaml",
                    "the start of a template of your own"}},
      .exit_codes = {{"0", "the templates were listed, or the template was shown"},
                     {"1", "a template of the list cannot be read"},
                     {"2", "no such template, or a mistake in it"}},
  };
  return kDoc;
}

const CommandDoc& render_doc() {
  static const FlagTable kTable = verb_table(with_template_rows({}), {{.completes = Completes::kCommand}});
  static const CommandDoc kDoc = {
      .name = "muster render",
      .summary = "print a job script made from a template",
      .usage = "-t NAME [--PARAMETER VALUE]... [options of hvdrun] [--] COMMAND...",
      .description =
          "Prints a script for the template's scheduler. The script starts the command with hvdrun and ends with "
          "hvdrun's exit code. The template's parameters are options; muster templates show NAME lists them. hvdrun's "
          "own options are passed on and override the template.\n\nValues are quoted for the shell. A value that the "
          "scheduler's directives cannot hold is an error.",
      .groups = kTemplateGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster render -t thetagpu --nodes 2 --time 30m --project datascience -- python3 train.py > job.sh",
                    "chmod +x job.sh && qsub-gpu job.sh"},
                   {"muster render -t slurm-gpu --nodes 4 --queue gpu --bind-to none -- ./app",
                    "with one of hvdrun's options"},
                   {"muster render -t ./site.yaml --set data=/lustre/x -- ./app", "from a template of your own"}},
      .exit_codes = {{"0", "the script was printed"}, {"2", "a mistake in the command line or the template"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
