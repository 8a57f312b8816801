// dma_bus: each request that is taken makes one burst, of the place and length that were asked for;
// exactly its words pass, and only to and from the engine that asked; completions go first, and of
// the other two the pressed one or, if neither is, the one that had not the last turn.
module formal_dma_bus (
    input logic clk,
    input logic rst,
    input logic [2:0] req_valid,
    input logic [2:0] req_write,
    input logic [95:0] req_addr,
    input logic [17:0] req_words,
    input logic transmit_pressed,
    input logic receive_pressed,
    input logic [2:0] rd_ready,
    input logic [2:0] wr_valid,
    input logic [191:0] wr_data,
    input logic [23:0] wr_strb,
    input logic bus_cmd_ready,
    input logic bus_rd_valid,
    input logic [63:0] bus_rd_data,
    input logic bus_wr_ready
);
  logic [2:0] req_ready, rd_valid, wr_ready;
  logic [63:0] rd_data, bus_wr_data;
  logic bus_cmd_valid, bus_cmd_write, bus_rd_ready, bus_wr_valid;
  logic [31:0] bus_cmd_addr, words, waits;
  logic [5:0] bus_cmd_words;
  logic [7:0] bus_wr_strb;
  dma_bus dut (.clk, .rst, .req_valid, .req_ready, .req_write, .req_addr, .req_words, .transmit_pressed, .receive_pressed, .rd_valid,
      .rd_ready, .rd_data, .wr_valid, .wr_ready, .wr_data, .wr_strb, .bus_cmd_valid, .bus_cmd_ready, .bus_cmd_write, .bus_cmd_addr,
      .bus_cmd_words, .bus_rd_valid, .bus_rd_ready, .bus_rd_data, .bus_wr_valid, .bus_wr_ready, .bus_wr_data, .bus_wr_strb, .words,
      .waits);

  logic begun = 1'b0;
  logic [2:0] taken;
  logic [1:0] by, engine;  // who is taken now; whose burst is under way
  logic under_way, passing, writes, last_receive;
  logic [31:0] addr, moved_words;
  logic [5:0] asked, moved;
  logic word;
  assign taken = req_valid & req_ready;
  assign by = taken[2] ? 2'd2 : taken[1] ? 2'd1 : 2'd0;
  assign word = (bus_rd_valid && bus_rd_ready) || (bus_wr_valid && bus_wr_ready);
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    if (rst) begin
      under_way <= 1'b0;
      passing <= 1'b0;
      last_receive <= 1'b0;
      moved_words <= '0;
    end else begin
      if (taken != '0) begin
        under_way <= 1'b1;
        engine <= by;
        writes <= req_write[by];
        addr <= req_addr[32*by +: 32];
        asked <= req_words[6*by +: 6];
        moved <= '0;
        if (by != 2'd2) last_receive <= by == 2'd1;
      end
      if (bus_cmd_valid && bus_cmd_ready) passing <= 1'b1;
      if (word) begin
        moved <= moved + 1'b1;
        moved_words <= moved_words + 1'b1;
        if (moved + 6'd1 == asked) begin
          under_way <= 1'b0;
          passing <= 1'b0;
        end
      end
    end
  end

  (* keep *) logic dut_busy, dut_asked_out, dut_write, dut_last_receive;
  (* keep *) logic [1:0] dut_owner;
  (* keep *) logic [5:0] dut_left;

  always_comb begin
    assume (begun || rst);
    for (int i = 0; i < 3; i++) begin
      if (req_valid[i]) assume (req_words[6*i +: 6] >= 6'd1 && req_words[6*i +: 6] <= 6'd32);
    end
    if (begun && !rst) begin
      takes_one_at_a_time : assert ((taken & (taken - 3'd1)) == '0 && (!under_way || taken == '0));
      if (req_valid != '0 && !under_way) never_idles_while_one_waits : assert (taken != '0);
      if (taken[1:0] != '0) completions_go_first : assert (!req_valid[2]);
      if (taken[0] && req_valid[1]) transmit_goes_in_its_turn : assert (!receive_pressed && (transmit_pressed || last_receive));
      if (taken[1] && req_valid[0]) receive_goes_in_its_turn : assert (receive_pressed || (!transmit_pressed && !last_receive));

      asks_once_for_each_request : assert (bus_cmd_valid == (under_way && !passing));
      if (bus_cmd_valid) asks_for_what_was_asked : assert (bus_cmd_write == writes && bus_cmd_addr == addr && bus_cmd_words == asked);
      if (under_way) no_word_too_many : assert (moved < asked);
      if (!passing) no_word_before_the_command : assert (!word && rd_valid == '0 && wr_ready == '0);
      if (passing && !writes) words_read_go_to_who_asked : assert (rd_valid == (bus_rd_valid ? 3'd1 << engine : 3'd0)
          && bus_rd_ready == rd_ready[engine] && rd_data == bus_rd_data && !bus_wr_valid && wr_ready == '0);
      if (passing && writes) words_written_come_from_who_asked : assert (wr_ready == (bus_wr_ready ? 3'd1 << engine : 3'd0)
          && bus_wr_valid == wr_valid[engine] && bus_wr_data == wr_data[64*engine +: 64] && bus_wr_strb == wr_strb[8*engine +: 8]
          && !bus_rd_ready && rd_valid == '0);
      counts_words : assert (words == moved_words);

      state_is_expected : assert (dut_busy == under_way && dut_asked_out == passing && dut_last_receive == last_receive);
      if (passing) passes_within_a_burst : assert (under_way);
      if (under_way) burst_is_kept : assert (dut_owner == engine && dut_owner != 2'd3 && dut_write == writes && dut_left == asked - moved
          && bus_cmd_words == asked && bus_cmd_addr == addr && asked <= 6'd32);
    end
  end
endmodule
