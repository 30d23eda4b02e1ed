#include "cli/options/label_option.h"

#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

FlagRow label_row() {
  return option("label-format", {"--label-format"}, "TEXT|none",
                "Text before each line of the ranks; it may contain {rank}, {stream} and {time}, as in '{rank}: '. "
                "none, or --no-label: no text.")
      .any_value()
      .says({"--no-label", "none"})
      .standard("[{rank}]<{stream}>:");
}

base::Result<model::LabelFormat> read_label_format(const Settings& settings) {
  model::LabelFormat label;
  if (const Setting* const setting = settings.find("label-format")) {
    auto parsed = model::LabelFormat::parse(setting->value == "none" ? "" : setting->value);
    if (!parsed.ok()) return parsed.status().with_context(setting->label);
    label = *std::move(parsed);
  }
  const Setting* const time = settings.find("prefix-output-with-timestamp");
  if (time != nullptr && parse_toggle(time->value).value_or(false)) label.add_time();
  return label;
}

}  // namespace muster::cli::options
