//! A table that is wider than the terminal: nothing is cut, lines are added.
//!
//! Owns: which columns stay side by side, and how the others stand below their row.
//! Leaves to others: tables that fit, colour (`output`).

use tabled::grid::util::string::get_string_width as width;

/// Columns between two cells.
const GAP: usize = 2;

/// The last column gives way where it stands as long as this much is left of it: lists and reasons
/// are read well in that.
const ENOUGH: usize = 20;

/// How far the rest of a row is set in below it.
const STEP: usize = 4;

/// Width of a table's columns: head and cells.
pub fn widths<const N: usize>(head: &[&str; N], rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|i| {
        let cells = rows.iter().map(|r| width(&r[i]));
        cells.chain([width(head[i])]).max().unwrap_or(0)
    })
}

/// Width of columns side by side.
pub fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The lines of a table within `limit` columns, its head first. Only a single word that is longer
/// than the limit is broken.
pub fn lines<const N: usize>(head: &[&str; N], rows: &[[String; N]], limit: usize) -> Vec<String> {
    let widths = widths(head, rows);
    let before_last = total(&widths[..N - 1]) + GAP;
    let whole_words = rows.iter().flat_map(|r| r[N - 1].split(' ')).map(width);
    let needed = whole_words.chain([ENOUGH]).max().unwrap_or(ENOUGH);
    if total(&widths) <= limit || before_last + needed <= limit {
        return beside(head, rows, &widths, limit - before_last.min(limit));
    }
    below(head, rows, &widths, limit)
}

/// All columns side by side, the last one in as many lines as it takes.
fn beside<const N: usize>(
    head: &[&str; N],
    rows: &[[String; N]],
    widths: &[usize; N],
    room: usize,
) -> Vec<String> {
    let mut lines = vec![row(head.iter().copied(), widths)];
    let before = total(&widths[..N - 1]) + GAP;
    for cells in rows {
        let mut last = wrap(&cells[N - 1], room.max(1)).into_iter();
        let first = last.next().unwrap_or_default();
        let front = cells[..N - 1].iter().map(String::as_str);
        lines.push(row(front.chain([first.as_str()]), widths));
        lines.extend(last.map(|more| format!("{:before$}{more}", "")));
    }
    lines
}

/// As many columns as fit side by side; the others below each row, with their names.
fn below<const N: usize>(
    head: &[&str; N],
    rows: &[[String; N]],
    widths: &[usize; N],
    limit: usize,
) -> Vec<String> {
    let fitting = (1..N).rev().find(|n| total(&widths[..*n]) <= limit);
    let beside = fitting.unwrap_or(1);
    let mut lines = wrap(&row(head[..beside].iter().copied(), widths), limit);
    for cells in rows {
        let front = row(cells[..beside].iter().map(String::as_str), widths);
        match fitting {
            Some(_) => lines.push(front),
            None => lines.extend(wrap(&front, limit)),
        }
        let named = (beside..N).filter_map(|i| match (head[i], cells[i].as_str()) {
            (_, "" | "-") => None,
            ("", cell) => Some(cell.to_owned()),
            (name, cell) => Some(format!("{name} {cell}")),
        });
        let room = limit.saturating_sub(STEP).max(1);
        let set_in = |line: String| format!("{:STEP$}{line}", "");
        lines.extend(flow(named, room).into_iter().map(set_in));
    }
    lines
}

/// Cells side by side.
fn row<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, wide) in cells.zip(widths) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(
            ' ',
            wide.saturating_sub(width(cell)) + GAP,
        ));
    }
    line.truncate(line.trim_end().len());
    line
}

/// Items one after the other; one that does not fit begins a line, and is wrapped if it is longer.
fn flow(items: impl Iterator<Item = String>, limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if width(line) + GAP + width(&item) <= limit => {
                line.push_str("  ");
                line.push_str(&item);
            },
            _ => lines.extend(wrap(&item, limit)),
        }
    }
    lines
}

/// A text in lines of at most `limit` columns, broken between words, and within one only where it is
/// longer than a line.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    if width(text) <= limit {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |l| width(l));
        let gap = usize::from(line > 0);
        if line + gap + width(word) > limit && line > 0 {
            lines.push(String::new());
        } else if gap > 0 {
            push(&mut lines, ' ');
        }
        for c in word.chars() {
            let line = lines.last().map_or(0, |l| width(l));
            if line > 0 && line + width(c.encode_utf8(&mut [0; 4])) > limit {
                lines.push(String::new());
            }
            push(&mut lines, c);
        }
    }
    lines
}

fn push(lines: &mut [String], c: char) {
    if let Some(line) = lines.last_mut() {
        line.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [&str; 4] = ["NODE", "STATE", "LOAD", "WARM"];

    fn rows() -> Vec<[String; 4]> {
        [
            ["this-pc", "healthy", "2", "qwen3:8b, phi4, llama3.3:70b-q4"],
            ["tower.lan", "unreachable", "0", "-"],
        ]
        .map(|r| r.map(str::to_owned))
        .to_vec()
    }

    #[test]
    fn the_last_column_gives_way_first() {
        assert_eq!(
            lines(&HEAD, &rows(), 50).join("\n"),
            "\
NODE       STATE        LOAD  WARM
this-pc    healthy      2     qwen3:8b, phi4,
                              llama3.3:70b-q4
tower.lan  unreachable  0     -"
        );
    }

    #[test]
    fn then_columns_go_below_their_row_with_their_names() {
        assert_eq!(
            lines(&HEAD, &rows(), 32).join("\n"),
            "\
NODE       STATE        LOAD
this-pc    healthy      2
    WARM qwen3:8b, phi4,
    llama3.3:70b-q4
tower.lan  unreachable  0"
        );
        assert_eq!(
            lines(&HEAD, &rows(), 24).join("\n"),
            "\
NODE       STATE
this-pc    healthy
    LOAD 2
    WARM qwen3:8b, phi4,
    llama3.3:70b-q4
tower.lan  unreachable
    LOAD 0"
        );
    }

    #[test]
    fn at_no_width_is_anything_lost_or_wider_than_the_limit() {
        let letters = |text: &str| {
            let mut letters: Vec<_> = text.chars().filter(|c| !c.is_whitespace()).collect();
            letters.sort_unstable();
            letters.into_iter().collect::<String>()
        };
        for limit in 1..120 {
            let text = lines(&HEAD, &rows(), limit);
            assert!(
                text.iter().all(|l| width(l) <= limit.max(STEP + 1)),
                "{limit}: {text:?}"
            );
            let body = letters(&text.join(""));
            for row in rows() {
                for cell in row.iter().filter(|c| *c != "-") {
                    for c in letters(cell).chars() {
                        let of = |t: &str| t.chars().filter(|x| *x == c).count();
                        assert!(of(&body) >= of(&letters(cell)), "{limit}: {cell} {text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn wide_characters_count_as_what_they_take() {
        let rows = [["模型".to_owned(), "x".to_owned()]];
        assert_eq!(lines(&["A", "B"], &rows, 40), ["A     B", "模型  x"]);
    }
}
