// Sorts a table by the column whose title is clicked. Without it the page is complete, only unsorted.
(function () {
  "use strict";
  // The first number of a cell, or nothing.
  function number(text) {
    var found = text.replace(/\u2212/g, "-").match(/[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?/i);
    return found ? parseFloat(found[0]) : null;
  }
  function cellOf(row, column) { return row.cells[column].textContent.trim(); }
  function compare(a, b, numeric) {
    return numeric ? number(a) - number(b) : a.localeCompare(b, "en", { numeric: true });
  }
  function sort(table, column, numeric, down) {
    var body = table.tBodies[0];
    var rows = Array.from(body.rows);
    var empty = function (row) {
      var text = cellOf(row, column);
      return text === "" || text === "\u2013" || (numeric && number(text) === null);
    };
    // What has no value stays at the end either way.
    var full = rows.filter(function (row) { return !empty(row); });
    full.sort(function (a, b) {
      var order = compare(cellOf(a, column), cellOf(b, column), numeric);
      return down ? -order : order;
    });
    full.concat(rows.filter(empty)).forEach(function (row) {
      row.classList.remove("break");
      body.appendChild(row);
    });
  }
  // Which column of the body a title stands over, where titles of groups span several.
  function columns(table) {
    var grid = [];
    Array.from(table.tHead.rows).forEach(function (row, at) {
      grid[at] = grid[at] || [];
      var column = 0;
      Array.from(row.cells).forEach(function (cell) {
        while (grid[at][column]) column += 1;
        for (var r = 0; r < cell.rowSpan; r += 1) {
          grid[at + r] = grid[at + r] || [];
          for (var c = 0; c < cell.colSpan; c += 1) grid[at + r][column + c] = cell;
        }
      });
    });
    return grid[grid.length - 1];
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    if (table.tBodies[0].rows.length < 2) return;
    var heads = columns(table);
    heads.forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.title = "Sort";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, head.classList.contains("n"), down);
      });
    });
  });
})();
