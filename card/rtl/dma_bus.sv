// Shares the host's bus among the engines of x0, a burst at a time, as PCI does: 0 transmit, 1
// receive, 2 completions. A request asks for up to 32 words at an address that is a multiple of 8
// and does not cross 256 bytes; its words then pass between the bus and the engine. Completions go
// first, being short and rare; transmit and receive take turns unless one of them is pressed:
// receive when its queue fills, transmit when the card is about to idle.
module dma_bus (
    input  logic        clk,
    input  logic        rst,
    input  logic [2:0]  req_valid,
    output logic [2:0]  req_ready,
    input  logic [2:0]  req_write,
    input  logic [95:0] req_addr,
    input  logic [17:0] req_words,
    input  logic        transmit_pressed,
    input  logic        receive_pressed,
    output logic [2:0]  rd_valid, // a word for the engine that asked
    input  logic [2:0]  rd_ready,
    output logic [63:0] rd_data,
    input  logic [2:0]  wr_valid,
    output logic [2:0]  wr_ready,
    input  logic [191:0] wr_data,
    input  logic [23:0] wr_strb,
    output logic        bus_cmd_valid,
    input  logic        bus_cmd_ready,
    output logic        bus_cmd_write,
    output logic [31:0] bus_cmd_addr,
    output logic [5:0]  bus_cmd_words,
    input  logic        bus_rd_valid,
    output logic        bus_rd_ready,
    input  logic [63:0] bus_rd_data,
    output logic        bus_wr_valid,
    input  logic        bus_wr_ready,
    output logic [63:0] bus_wr_data,
    output logic [7:0]  bus_wr_strb,
    output logic [31:0] words, // moved since reset
    output logic [31:0] waits  // cycles in which a burst was under way and no word moved
);
  logic [1:0] owner, choice;
  logic       busy, write, last_receive, asked;
  logic [5:0] left;
  logic       asked_out; // the command was taken, its words pass
  logic       move;

  always_comb begin
    choice = 2'd2;
    asked = req_valid[2];
    if (!req_valid[2] && |req_valid[1:0]) begin
      asked = 1'b1;
      if (!req_valid[0]) choice = 2'd1;
      else if (!req_valid[1]) choice = 2'd0;
      else if (receive_pressed) choice = 2'd1;
      else if (transmit_pressed) choice = 2'd0;
      else choice = last_receive ? 2'd0 : 2'd1;
    end
  end

  assign bus_cmd_valid = busy && !asked_out;
  assign move = asked_out && (write ? bus_wr_valid && bus_wr_ready : bus_rd_valid && bus_rd_ready);
  assign bus_cmd_write = write;
  always_comb begin
    req_ready = '0;
    req_ready[choice] = asked && !busy;
    rd_valid = '0;
    rd_valid[owner] = asked_out && !write && bus_rd_valid;
    wr_ready = '0;
    wr_ready[owner] = asked_out && write && bus_wr_ready;
  end
  assign rd_data = bus_rd_data;
  assign bus_rd_ready = asked_out && !write && rd_ready[owner];
  assign bus_wr_valid = asked_out && write && wr_valid[owner];
  assign bus_wr_data = wr_data[64*owner +: 64];
  assign bus_wr_strb = wr_strb[8*owner +: 8];

  always_ff @(posedge clk) begin
    if (rst) begin
      busy <= 1'b0;
      asked_out <= 1'b0;
      last_receive <= 1'b0;
      words <= '0;
      waits <= '0;
    end else begin
      if (!busy && asked) begin
        busy <= 1'b1;
        owner <= choice;
        write <= req_write[choice];
        bus_cmd_addr <= req_addr[32*choice +: 32];
        bus_cmd_words <= req_words[6*choice +: 6];
        left <= req_words[6*choice +: 6];
        if (choice != 2'd2) last_receive <= choice == 2'd1;
      end
      if (bus_cmd_valid && bus_cmd_ready) asked_out <= 1'b1;
      if (move) begin
        words <= words + 1'b1;
        left <= left - 1'b1;
        if (left == 6'd1) begin
          busy <= 1'b0;
          asked_out <= 1'b0;
        end
      end
      if (busy && !move) waits <= waits + 1'b1;
    end
  end
endmodule
